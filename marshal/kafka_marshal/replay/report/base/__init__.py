"""Shared by the sections of the page: values, times, colours and words."""
