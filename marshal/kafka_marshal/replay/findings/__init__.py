"""Findings: what an operator of consumers should know about a log.

Each module watches for one concern and reports it in a sentence; `catalogue` lists every code. This
room judges what happened. It does not know Spark, nor how a finding is drawn.
"""
