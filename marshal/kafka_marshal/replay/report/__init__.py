"""`report.html`: the results of a replay as one self-contained page.

This room knows how to say it. It does not know Spark, nor where the values come from: fill
`ReportData`, call `render`, write the text as UTF-8.
"""

from kafka_marshal.replay.report.base.data import ReportData
from kafka_marshal.replay.report.page import render

__all__ = ["ReportData", "render"]
