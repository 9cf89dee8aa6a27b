"""`report.html`: the results of a replay as one self-contained page.

This package knows the presentation. It does not know Spark, nor where the values come from: fill
`ReportData`, call `render`, write the text as UTF-8.
"""

from kafka_marshal.replay.report.base.data import ReportData
from kafka_marshal.replay.report.page import render

__all__ = ["ReportData", "render"]
