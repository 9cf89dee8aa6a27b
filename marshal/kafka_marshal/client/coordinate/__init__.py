"""One instance at work: feeds its machine, and carries out what it asks for."""
