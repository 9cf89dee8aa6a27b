"""Commands for groups with a controller: one runs a controller, the others query one."""
