"""What a consumer reports about itself: observers, logs, metrics, traces, health."""
