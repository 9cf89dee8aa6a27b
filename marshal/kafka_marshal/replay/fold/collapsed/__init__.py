"""Compacts a coordinating partition before the fold: runs of records become single rows."""
