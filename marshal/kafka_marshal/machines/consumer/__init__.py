"""One instance: what it may do and when, for one claim (Consumer.tla) and for all its claims."""
