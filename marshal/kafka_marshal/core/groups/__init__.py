"""Groups with a controller: how each event of `__marshal_groups` changes a group."""
