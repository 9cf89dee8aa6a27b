"""The top of the page, with the result, and its end, with the inputs and their limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from kafka_marshal.markup import Html, el, escape, join, name, visible
from kafka_marshal.replay.report.base import pieces, words
from kafka_marshal.replay.report.base.clock import span
from kafka_marshal.replay.report.base.data import (
    FENCED,
    ORIGINAL,
    Finding,
    ReportData,
    ReportLog,
    Severity,
)
from kafka_marshal.replay.report.base.scale import FindingTotal


def header(data: ReportData, first_error: Html | None) -> Html:
    """What was replayed, the result in a sentence or two, and a link to the first error."""
    limits = len(_caveats(data))
    return el(
        "header",
        None,
        el("p", {"class": "kicker"}, "kafka-marshal replay"),
        el("h1", None, visible(data.title, 160), " ", el("small", None, _when(data))),
        el("p", {"class": "verdict"}, verdict(data)),
        el("p", {"class": "jump"}, first_error) if first_error is not None else None,
        el(
            "p",
            {"class": "limits"},
            el("a", {"href": "#caveats"}, f"Read it with {words.plural(limits, 'caveat')} in mind"),
        )
        if limits
        else None,
    )


def title(data: ReportData) -> str:
    """The page's title: topic and cluster, or files, and the time."""
    return f"{visible(data.title, 160)}, {_when(data)}"


def _when(data: ReportData) -> str:
    return span(data.from_ms, data.to_ms)


def replayed(data: ReportData) -> Html:
    """What was replayed, with which settings, and the limits of the result."""
    counts = data.counts
    facts = [
        ("records", f"{counts.records:,}"),
        ("logs", f"{len(data.logs):,}"),
        ("groups", f"{counts.groups:,}"),
        ("claims", f"{counts.claims:,}"),
        ("senders", f"{counts.senders:,}"),
        ("malformed", f"{counts.malformed:,}"),
    ]
    interval = f"{data.heartbeat_interval_s:g} s"
    stale = f"{2 * data.heartbeat_interval_s:g} s"
    shorter = ", ".join(f"{each:g} s" for each in data.heartbeat_intervals_s[:-1])
    other = f"; of other groups, as the log says: {shorter}" if shorter else ""
    settings = [
        ("Rules", " and ".join(visible(rules, 40) for rules in data.rules)),
        (
            "Heartbeat interval",
            f"{interval}; an owner silent for more than {stale} is stale{other}",
        ),
        ("Time", _when(data)),
        ("Sources", _some(data.sources, 12)),
    ]
    return el(
        "section",
        {"id": "replayed"},
        el("h2", None, "What was replayed"),
        caveats(data),
        el(
            "dl",
            {"class": "facts"},
            join(el("div", None, el("dt", None, k), el("dd", None, v)) for k, v in facts),
        ),
        el(
            "dl",
            {"class": "told"},
            join(el("div", None, el("dt", None, k), el("dd", None, v)) for k, v in settings),
        ),
    )


def _some(sources: Sequence[str], many: int) -> str:
    """The sources; a shared folder is written once."""
    folder = sources[0].rpartition("/")[0] if len(sources) > 1 else ""
    shared = folder and all(source.rpartition("/")[0] == folder for source in sources)
    texts = [source.rpartition("/")[2] for source in sources] if shared else sources
    shown = ", ".join(name(text, 120) for text in texts[:many])
    shown += f" and {len(texts) - many:,} more" if len(texts) > many else ""
    return f"{shown}, in {name(folder, 120)}" if shared else shown


def verdict(data: ReportData) -> Html:
    """The result of the replay in plain words."""
    if not data.counts.records:
        return escape("There was no record to replay.")
    by_rules = {rules: _errors(data, rules) for rules in data.rules}
    sentences: list[str | Html] = []
    if not data.counts.claims and not any(by_rules.values()):
        sentences.append("No record is about a claim, so nothing could be judged.")
    elif set(data.rules) == {FENCED, ORIGINAL}:
        original, fenced = by_rules[ORIGINAL], by_rules[FENCED]
        if original and not fenced:
            sentences.append(_under(data, ORIGINAL, original))
            told = _wrong(data, FENCED, fenced)
            sentences.append(f"Over the same records {told} under the fenced rules.")
        elif original or fenced or data.counts.claims_unjudged:
            for rules, errors in ((ORIGINAL, original), (FENCED, fenced)):
                sentences.append(_under(data, rules, errors))
        else:
            sentences.append("No promise was broken, under either rule set.")
        sentences.append(_parting(data))
    else:
        for rules, errors in by_rules.items():
            sentences.append(_under(data, rules, errors))
    warnings = sum(n for f, n in _counted(data) if f.severity is Severity.WARNING)
    if warnings:
        sentences.append(
            f"There {'is' if warnings == 1 else 'are'} {words.plural(warnings, 'warning')}."
        )
    own = sum(n for f, n in _counted(data) if f.rules is None and f.severity is Severity.ERROR)
    if own:
        sentences.append(f"The input itself has {words.plural(own, 'error')}.")
    return join(sentences, " ")


_Errors: TypeAlias = Counter[tuple[str, str | None]]
"""The counts by code and property."""


def _counted(data: ReportData) -> Iterator[tuple[Finding | FindingTotal, int]]:
    """Yield the findings and their counts, including those that the page leaves out."""
    if data.scale is None:
        return ((finding, 1) for finding in data.findings)
    return ((total, total.findings) for total in data.scale.totals)


def _errors(data: ReportData, rules: str) -> _Errors:
    errors: _Errors = Counter()
    for found, count in _counted(data):
        if found.rules == rules and found.severity is Severity.ERROR:
            errors[found.code, found.property] += count
    return errors


def _under(data: ReportData, rules: str, errors: _Errors) -> Html:
    whose = "original’s" if rules == ORIGINAL else name(rules)
    tag = "strong" if errors else "span"
    return el(tag, None, f"Under the {whose} rules {_wrong(data, rules, errors)}.")


def _wrong(data: ReportData, rules: str, kinds: _Errors) -> str:
    claims = data.counts.claims
    judged = claims - (data.counts.claims_unjudged if rules == FENCED else 0)
    if not kinds:
        if not judged:
            return "nothing could be judged"
        limit = f" on the {judged:,} of {claims:,} claims that could be judged"
        return "no promise was broken" + (limit if judged < claims else "")
    wrongs = [
        f"{visible(words.went_wrong(code, broken), 80)} {_times(count)}"
        for (code, broken), count in kinds.most_common(4)
    ]
    rest = len(kinds) - len(wrongs)
    if rest > 0:
        wrongs.append(f"{rest} other things went wrong")
    limit = f"; {judged:,} of {claims:,} claims could be judged" if judged < claims else ""
    return ", ".join(wrongs[:-1]) + (" and " if wrongs[1:] else "") + wrongs[-1] + limit


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _parting(data: ReportData) -> str:
    if not data.counts.divergences:
        unjudged = data.counts.claims_unjudged
        if unjudged and unjudged == data.counts.claims:
            return "The two rule sets could not be compared."
        certain = " that is certain" if unjudged else ""
        return f"The two rule sets agree on every owner and position{certain}, record by record."
    claims = len({d.claim for d in data.divergences})
    owners = sum(d.owners_differ for d in data.divergences)
    all_claims = words.plural(data.counts.claims, "claim")
    if data.scale is not None:
        claims = sum(log.parting for log in data.scale.logs.values())
        stretches = words.plural(data.counts.divergences, "time")
        return f"The two rule sets part on {claims:,} of {all_claims}, {stretches}."
    if len(data.divergences) < data.counts.divergences:
        return f"The two rule sets part on at least {claims:,} of {all_claims}."
    positions = len(data.divergences) - owners
    named = [
        f"{count:,} time{'' if count == 1 else 's'} on the {what}"
        for count, what in ((owners, "owner"), (positions, "position"))
        if count
    ]
    return f"The two rule sets part on {claims:,} of {all_claims}: {' and '.join(named)}."


def caveats(data: ReportData) -> Html | None:
    """The limits of the result."""
    texts = _caveats(data)
    if not texts:
        return None
    return el(
        "aside",
        {"class": "caveats", "id": "caveats", "aria-label": "Caveats"},
        el("h3", None, "Read with this in mind"),
        el("ul", None, join(el("li", None, text) for text in texts)),
    )


def _caveats(data: ReportData) -> list[str]:
    texts = [visible(caveat) for caveat in data.caveats]
    drawn = data.counts.claims if data.scale is not None else len(data.claims)
    for shown, count, what in (
        (drawn, data.counts.claims, "claims"),
        (len(data.findings), data.counts.findings, "findings"),
        (len(data.divergences), data.counts.divergences, "divergences"),
    ):
        if shown < count:
            texts.append(f"This page shows {shown:,} of {count:,} {what}; the tables hold all.")
    return texts


def overview(data: ReportData, log_anchors: dict[str, str]) -> Html | None:
    """One line per log, the worst first, with links to each."""
    if len(data.logs) < 2:
        return None
    findings: Counter[tuple[str, Severity]] = Counter()
    for found, count in _counted(data):
        findings[found.log, found.severity] += count
    parting = Counter(d.claim.log for d in data.divergences)
    claims = Counter(c.claim.log for c in data.claims)
    if data.scale is not None:
        parting = Counter({log: of.divergences for log, of in data.scale.logs.items()})
        claims = Counter({log: of.claims for log, of in data.scale.logs.items()})
    both = len(data.rules) > 1
    rows = []

    def how_bad(log: ReportLog) -> tuple[int, int]:
        return (-findings[log.name, Severity.ERROR], -findings[log.name, Severity.WARNING])

    for log in sorted(data.logs, key=how_bad):
        anchor = log_anchors.get(log.name)
        errors, warnings = findings[log.name, Severity.ERROR], findings[log.name, Severity.WARNING]
        rows.append(
            el(
                "tr",
                None,
                el(
                    "th",
                    {"scope": "row"},
                    pieces.link(anchor, name(log.name, 60)),
                ),
                el("td", None, span(log.from_ms, log.to_ms)),
                pieces.number(log.records),
                pieces.number(claims[log.name]),
                pieces.number(errors, "error"),
                pieces.number(warnings, "warning"),
                pieces.number(parting[log.name]) if both else None,
            )
        )
    heads = ["log", "time", "records", "claims", "errors", "warnings"]
    return pieces.table(
        "overview", [*heads, "divergences"] if both else heads, rows, text_columns=2
    )
