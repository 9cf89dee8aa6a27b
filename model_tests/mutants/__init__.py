"""Mutants: small changes for the worse, each of which something of ours must notice.

Generated ones (`generated`) ask whether the unit tests are strong enough. Hand-made ones
(`reducer`) are mistakes that one could really make, and each names the property that notices it.
Those of the specification are models, in `spec/models.toml`. `python -m model_tests.mutants` prints
all of them as one table.
"""
