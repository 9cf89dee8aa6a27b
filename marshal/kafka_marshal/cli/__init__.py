"""The command `marshal`: parses options, and turns results into an exit code.

This room knows the terminal. Exit codes: 0 fine, 1 found something, 2 could not run. What a command
does is in the rooms below; here an error of theirs becomes one sentence and a 2. So does Ctrl-C or
SIGTERM, unless a command has its own handlers.
"""

import gc
import os
import signal
import sys
from typing import Final, NoReturn

FINE: Final = 0
FOUND_SOMETHING: Final = 1
COULD_NOT_RUN: Final = 2


def main() -> None:
    """Run the command; exits with its code."""
    _open_streams()
    gc.set_threshold(50_000)  # what imports make stays; to look through it was a tenth of a start
    shown = sys.stdout
    try:
        for number in (signal.SIGINT, signal.SIGTERM):  # before the imports, which take a while
            signal.signal(number, interrupted)
        _run()
    except KeyboardInterrupt:
        _stop("interrupted")
    except SystemExit as stop:
        if stop.code == _ABORTED:  # an interrupt that typer has caught
            _stop("interrupted")
        if sys.stdout is not shown:  # typer's sign that nobody reads any more; its 1 is not ours
            sys.exit(COULD_NOT_RUN)
        raise
    except OSError as error:
        from kafka_marshal.cli.common import said_by

        _stop(f"cannot go on: {said_by(error)}")
    except MemoryError as error:
        error.__traceback__ = error.__context__ = None  # frees what its frames held
        why = f" ({error})" if str(error) else ""
        _stop(f"cannot go on: there is not enough memory{why}")
    except Exception:
        if _INTERRUPTS:  # whatever broke, broke because of it
            _stop("interrupted")
        raise
    finally:
        gc.freeze()  # an interpreter that ends looks for garbage several times, and would find none


def _run() -> None:
    try:
        from kafka_marshal.cli.app import app_of
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "click"):
            raise
        _stop(f"the command needs {error.name}; install it with: pip install 'kafka-marshal[cli]'")
    app_of(sys.argv[1:])()


_ABORTED: Final = 130
_INTERRUPTS: Final[list[int]] = []


class Interrupted(KeyboardInterrupt):
    """A signal ends the command.

    Where a KeyboardInterrupt leaves `exec` of a text, as imports call it, Python notes that nobody
    caught it, and `python -m` ends by the signal whatever the exit code. Not for a subclass.
    """


def interrupted(signum: int, _: object) -> NoReturn:
    """A signal's handler: ends the command at once, with one sentence and exit code 2."""
    _INTERRUPTS.append(signum)
    raise Interrupted


def _stop(why: str) -> NoReturn:
    try:
        sys.stderr.write(f"marshal: {why}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        _discard(2)
    _discard(1)
    sys.exit(COULD_NOT_RUN)


def _open_streams() -> None:
    """Discard what goes to a standard stream that the caller has closed; Python has None there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free: the stream's own
            os.set_inheritable(number, True)
            stream = os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace")
            setattr(sys, name, stream)


def _discard(stream: int) -> None:
    """Discard what is still buffered for a full or closed stream, so the exit does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
