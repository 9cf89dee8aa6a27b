"""Groups in a simulated world: controllers, their members, faults between them, and checkers."""
