"""What an administrator does to a cluster: inspect claims, set positions, pause groups."""
