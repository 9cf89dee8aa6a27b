"""The colour of each owner, the same everywhere on the page.

A client has a hue, and its instances have shades of it. The hues can be distinguished with any
colour vision. None of them is red, which is reserved for errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kafka_marshal.replay.report.base.data import ClaimTimeline

HUES: Final = 8
SHADES: Final = 3


class Palette:
    """Hues for clients, by number of tenures; shades for a client's instances, in log order.

    With more than `HUES` clients the hues repeat; the names in the bars distinguish owners then.
    """

    def __init__(self, claims: Iterable[ClaimTimeline]) -> None:
        owned: Counter[str] = Counter()
        first_seen: dict[tuple[str, str], tuple[int, str]] = {}
        for timeline in claims:
            for tenure in (tenure for lane in timeline.lanes for tenure in lane.tenures):
                owned[tenure.owner_client] += 1
                key = (tenure.owner_client, tenure.owner_instance)
                seen = (tenure.from_ms, timeline.claim.log)
                first_seen[key] = min(first_seen.get(key, seen), seen)
            for held in (held for lane in timeline.lanes for held in lane.ranges):
                owned[held.client] += 1
                key, seen = (held.client, held.instance), (held.from_ms, timeline.claim.log)
                first_seen[key] = min(first_seen.get(key, seen), seen)
        most_first = sorted(owned, key=lambda client: (-owned[client], client))
        self.clients: tuple[str, ...] = tuple(sorted(most_first[:HUES]) + most_first[HUES:])
        """Clients that owned a claim, or held a range: those with a hue of their own first, by
        name."""
        self._hues = {client: n % HUES for n, client in enumerate(self.clients)}
        self._shades: dict[tuple[str, str], int] = {}
        instances: Counter[tuple[str, str]] = Counter()
        for client, instance in sorted(first_seen, key=lambda key: (first_seen[key], key)):
            _, log = first_seen[client, instance]
            self._shades[client, instance] = instances[client, log] % SHADES
            instances[client, log] += 1
        self.shaded = any(self._shades.values())
        """Whether a client has more than one shade."""

    def owner(self, client: str, instance: str) -> str:
        """The CSS class of an owner's bar; owners without a tenure are grey."""
        if client not in self._hues:
            return "o"
        return f"o h{self._hues[client]} s{self._shades.get((client, instance), 0)}"

    def client(self, client: str) -> str:
        """The CSS class of a client's swatch."""
        return f"o h{self._hues[client]} s0" if client in self._hues else "o"
