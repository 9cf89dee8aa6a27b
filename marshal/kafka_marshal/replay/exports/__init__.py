"""Findings and tenures as files, for other tools."""
