"""The protocols of logs: summary and page of each."""
