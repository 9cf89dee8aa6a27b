"""Findings as JUnit XML: each log is a test suite, and each finding code a test case.

A case fails if there is an error or a warning with that code. Findings of severity `info` are in
the case's output. A code that the chosen rules never report is skipped, and so is one that nobody
looked for.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final
from xml.etree import ElementTree as Xml

from attrs import define, field

from kafka_marshal.replay.findings.catalogue import CATALOGUE, ERROR, WARNING, FindingKind
from kafka_marshal.replay.model.phrasing import times
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import readable

SENTENCES_MAX: Final = 20
"""Findings of one case to write out, at most; the rest are counted."""
LOOKED_AT_ALL: Final[Mapping[str, Mapping[str, str]]] = {}
"""Every check was made."""
_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@define
class _Case:
    severity: str
    count: int = 0
    sentences: list[str] = field(factory=list)

    def add(self, row: FindingRow) -> None:
        self.count += 1
        if len(self.sentences) < SENTENCES_MAX:
            under = f"[{row.rules}] " if row.rules else ""
            self.sentences.append(f"{under}{row.sentence}")

    def text(self) -> str:
        more = self.count - len(self.sentences)
        return "\n".join([*self.sentences, *([f"... and {more:,} more"] if more else [])])


class JUnit:
    """Gathers findings; holds no more than some sentences of each log and code."""

    def __init__(self, catalogue: Mapping[str, FindingKind] = CATALOGUE) -> None:
        self._catalogue = catalogue
        self._cases: dict[tuple[str, str], dict[str, _Case]] = defaultdict(dict)

    def add(self, row: FindingRow) -> None:
        """The next finding."""
        self._cases[row.log, row.code].setdefault(row.severity, _Case(row.severity)).add(row)

    def text(
        self,
        logs: Sequence[str],
        rules: Collection[str],
        not_looked_at: Mapping[str, Mapping[str, str]] = LOOKED_AT_ALL,
    ) -> str:
        """The file: of these logs, judged by these rule sets.

        `not_looked_at` are the codes that nobody looked for, by log, each with the reason.
        """
        suites = Xml.Element("testsuites", name="kafka-marshal")
        totals = dict.fromkeys(("tests", "failures", "skipped"), 0)
        for log in logs:
            suite = Xml.SubElement(suites, "testsuite", name=_text(log))
            for kind in self._catalogue.values():
                why = not_looked_at.get(log, {}).get(kind.code)
                self._case(suite, log, kind, rules, why)
            counts = {
                "tests": len(suite),
                "failures": len(suite.findall("testcase/failure")),
                "skipped": len(suite.findall("testcase/skipped")),
            }
            for name, count in counts.items():
                suite.set(name, str(count))
                totals[name] += count
            suite.set("errors", "0")
        for name, count in totals.items():
            suites.set(name, str(count))
        suites.set("errors", "0")
        Xml.indent(suites, " ")
        return Xml.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"

    def _case(
        self,
        suite: Xml.Element,
        log: str,
        kind: FindingKind,
        rules: Collection[str],
        why_not: str | None,
    ) -> None:
        case = Xml.SubElement(suite, "testcase", classname=_text(log), name=kind.code)
        found = self._cases.get((log, kind.code), {})
        bad = [found[severity] for severity in (ERROR, WARNING) if severity in found]
        if bad:
            count = sum(of_severity.count for of_severity in bad)
            message = f"{times(count, 'finding')}: {bad[0].sentences[0]}"
            failure = Xml.SubElement(case, "failure", type=bad[0].severity, message=_text(message))
            failure.text = _text(
                "\n".join([*(of_severity.text() for of_severity in bad), "", kind.what_to_do])
            )
        elif kind.rules not in (*rules, "each", "log"):
            Xml.SubElement(case, "skipped", message=f"only reported under the rules {kind.rules}")
        elif why_not is not None and not found:
            Xml.SubElement(case, "skipped", message=f"not looked at: {why_not}")
        good = [c.text() for severity, c in found.items() if severity not in (ERROR, WARNING)]
        if good:
            Xml.SubElement(case, "system-out").text = _text("\n".join(good))


def _text(text: str) -> str:
    r"""Text in a form that XML supports: other characters become \xNN.

    >>> _text("a\x00b")
    'a\\x00b'
    """
    return _NOT_XML.sub(lambda match: f"\\x{ord(match[0]):02x}", readable(text))


def junit(
    findings: Iterable[FindingRow],
    logs: Sequence[str],
    rules: Collection[str],
    not_looked_at: Mapping[str, Mapping[str, str]] = LOOKED_AT_ALL,
) -> str:
    """The text of a JUnit file; see `JUnit.text`."""
    gathered = JUnit()
    for row in findings:
        gathered.add(row)
    return gathered.text(logs, rules, not_looked_at)
