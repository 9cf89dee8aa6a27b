"""Commands of groups with a controller: the controller itself, and what asks one."""
