"""Runs one instance: feeds its state machine, and carries out the effects it returns."""
