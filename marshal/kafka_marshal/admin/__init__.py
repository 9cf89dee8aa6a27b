"""What an administrator does to a cluster: looks at claims, sets positions, pauses groups."""
