"""Runs jobs as Spark tasks: sessions, shuffles, queries on results, and failures."""
