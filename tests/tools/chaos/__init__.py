"""The chaos run: its proxy, its accounting, and its judges."""
