"""Formulas, and the solvers that decide them."""
