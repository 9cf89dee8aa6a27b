"""One instance: what it may do and when, claim by claim (Consumer.tla), and all its claims."""
