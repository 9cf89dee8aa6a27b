"""An administrator's operations on a cluster: inspect claims, set positions, pause groups."""
