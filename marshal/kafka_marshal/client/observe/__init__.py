"""What a consumer says of itself: observers, logs, metrics, traces, health."""
