"""What TLC found, step by step in words, and as a counterexample."""
