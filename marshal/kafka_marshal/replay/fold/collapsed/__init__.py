"""A coordinating partition, folded into rows: made small, stepped, watched. Knows no engine."""
