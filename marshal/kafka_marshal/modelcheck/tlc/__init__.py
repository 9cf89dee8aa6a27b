"""TLC as a process: its jars, a run of it, its output and its values."""
