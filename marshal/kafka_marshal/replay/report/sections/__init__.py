"""The sections of the page: each draws one thing from plain values."""
