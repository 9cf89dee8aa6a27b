"""The protocols that a log can be of: what each makes of a folded log, up to its page."""
