"""Groups with a controller: what each event of `__marshal_groups` does to a group's members."""
