"""What consumers report of themselves: callbacks, recordings, log lines."""
