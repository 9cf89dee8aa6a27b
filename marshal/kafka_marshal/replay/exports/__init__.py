"""Exports findings and tenures to file formats of other tools."""
