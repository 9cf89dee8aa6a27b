"""Runs TLC and reads its output: models, counterexamples, exported transitions.

The only room that starts TLC. It does not know the reducer; model_tests holds the two together.
"""
