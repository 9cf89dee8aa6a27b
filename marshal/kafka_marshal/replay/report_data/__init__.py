"""The content of the page and the summary, taken from a folded log."""
