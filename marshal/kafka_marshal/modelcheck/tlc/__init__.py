"""TLC as a process: its jars, its runs, its output and its values."""
