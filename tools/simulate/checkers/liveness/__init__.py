"""Once faults stop, everything is consumed, and nobody ended for no reason."""
