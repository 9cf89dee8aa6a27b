"""The version of this package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def package_version() -> str:
    """The version of the installed package; "unknown" if it is only on Python's path."""
    try:
        return version("kafka-marshal")
    except PackageNotFoundError:
        return "unknown"
