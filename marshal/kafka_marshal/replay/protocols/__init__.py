"""The protocols of logs: what each one makes of a folded log, up to its page."""
