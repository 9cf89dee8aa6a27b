"""Ranges on top of a claim that several consumers share: each range of offsets has one holder."""
