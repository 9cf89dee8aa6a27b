"""TLC's counterexamples in words, step by step, and in the common form."""
