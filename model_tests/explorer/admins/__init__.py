"""`SetPosition.tla` over the reducer and the administrator's machine: several claims in one log."""
