"""The page draws who held which offsets of shared claims, and nothing where no claim is shared."""

from __future__ import annotations

import re

import attrs

from kafka_marshal.replay.report.base import data as d
from kafka_marshal.replay.report.page import render

CLAIM = d.ClaimId("monday", 2, "g", "orders", 0)
HELD = d.RangeBar(3, 0, 40, "p1", "P", 1_000_000, 1_060_000, "done")


def page_of(*held: d.RangeBar) -> str:
    lane = d.Lane("fenced", ranges=held)
    return render(
        d.ReportData(
            title="monday",
            sources=("monday",),
            rules=("fenced",),
            heartbeat_interval_s=4.0,
            from_ms=1_000_000,
            to_ms=1_060_000,
            counts=d.Counts(9, 0, 1, 1, 2, 0, 0),
            logs=(d.ReportLog("monday", 9, 1_000_000, 1_060_000, 1),),
            claims=(d.ClaimTimeline(CLAIM, (lane,), 9),),
        )
    )


def test_a_page_without_shared_claims_has_no_such_section() -> None:
    assert "Who held which offsets" not in page_of()


def test_a_range_is_a_rectangle_of_its_offsets_and_its_time() -> None:
    later = attrs.evolve(HELD, offset=5, start=40, end=100, instance="q1", client="Q", to_ms=None)
    text = page_of(HELD, attrs.evolve(later, from_ms=1_030_000, ended="lost"))
    assert text.count("Who held which offsets") == 2, "the heading and the link to it"
    boxes = re.findall(
        r'<svg class="held (\w+) o h\d s0" x="([\d.]+)%" width="([\d.]+)%" y="([\d.]+)" '
        r'height="([\d.]+)"',
        text,
    )
    assert [(ended, float(y), float(height)) for ended, _, _, y, height in boxes] == [
        ("done", 108.0, 72.0),
        ("lost", 0.0, 108.0),
    ]
    (_, x, width, *_), (_, later_x, later_width, *_) = boxes
    assert float(x) < 5
    assert float(x) + float(width) < 100
    assert 45 < float(later_x) < 55
    assert float(later_x) + float(later_width) == 100, "it lasts until the log ends"
    axes = re.findall(r'<svg class="axis"([^>]*)>', text.split('id="ranges"')[1])
    assert all("data-axis=" in axis for axis in axes), "the script draws every axis anew"
    assert len(axes) == 1
    assert "P · p1: offsets 0 to 39, by the request at log offset 3" in text
    assert "forgotten with a silent holder" in text
    assert "2 ranges of 2 instances, 1 done, 1 forgotten with a silent holder" in text


def test_a_holder_has_its_colour_in_the_legend_and_what_it_is_called_stays_text() -> None:
    text = page_of(attrs.evolve(HELD, instance="<b>", client="<i>"))
    assert "<b>" not in text.split("Who held which offsets")[-1]
    assert "&lt;i&gt; · &lt;b&gt;: offsets" in text
    assert re.search(r'class="swatch o h0 s0"></i><bdi>&lt;i&gt;</bdi>', text)
