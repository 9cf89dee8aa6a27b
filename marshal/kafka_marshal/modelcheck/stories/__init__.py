"""What TLC found, told step by step, and as a counterexample."""
