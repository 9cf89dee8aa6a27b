"""What the page and the summary say, taken from a folded log."""
