"""The controller of one partition: reading, decisions, events and answers."""
