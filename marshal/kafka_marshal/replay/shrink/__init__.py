"""Finds the smallest part of a log that still shows a finding; writes a capture and a test."""
