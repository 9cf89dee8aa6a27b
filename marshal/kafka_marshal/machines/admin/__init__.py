"""An administrator that sets several positions, all or none: rules and timing (Admin.tla)."""
