"""Commands on logs and recorded runs: replay, shrink, trace, validate, verify, watch."""
