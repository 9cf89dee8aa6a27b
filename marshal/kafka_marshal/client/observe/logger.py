"""The logger of the client. No handler of an application ends what writes a line.

Many lines are written in threads of ours, which claim, heartbeat, and report outcomes. A handler
may raise an exception there, of a full disk for example. It does not know what is written.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, Final


class ClientLogger(logging.LoggerAdapter[logging.Logger]):
    """Prints what a handler raises, as the handlers of `logging` do."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """The line as it is."""
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Write a line."""
        try:
            super().log(level, msg, *args, stacklevel=2, **kwargs)  # not this one is its place
        except Exception:
            if logging.raiseExceptions and sys.stderr is not None:
                with suppress(OSError, ValueError):  # it is full, or closed
                    traceback.print_exc()


logger: Final = ClientLogger(logging.getLogger("kafka_marshal"))
