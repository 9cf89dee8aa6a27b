"""Folds a coordinating partition into rows: compacted, stepped, observed. Knows no engine."""
