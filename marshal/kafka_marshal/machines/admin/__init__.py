"""An administrator who sets several positions, all or none: what and when (Admin.tla)."""
