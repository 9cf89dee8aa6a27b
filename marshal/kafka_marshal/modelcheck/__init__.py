"""Runs TLC and reads its output: models, counterexamples, exported transitions.

The only package that starts TLC. It does not know the reducer; model_tests compares the two.
"""
