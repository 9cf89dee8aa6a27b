"""The command `marshal`: options in, exit code out.

This room knows the terminal. Exit codes: 0 fine, 1 found something, 2 could not run. What a command
does is in the rooms below; here an error of theirs becomes one sentence and a 2.
"""

import sys
from typing import Final

FINE: Final = 0
FOUND_SOMETHING: Final = 1
COULD_NOT_RUN: Final = 2


def main() -> None:
    """Run the command; exits with its code."""
    try:
        from kafka_marshal.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "click"):
            raise
        sys.stderr.write(
            f"marshal: the command needs {error.name}; "
            "install it with: pip install 'kafka-marshal[replay]'\n"
        )
        sys.exit(COULD_NOT_RUN)
    app()
