"""Message processing: order, retries, dead letters, threads."""
