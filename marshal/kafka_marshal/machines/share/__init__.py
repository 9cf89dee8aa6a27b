"""Fair share: what a member asks for and gives back, and when (Share.tla)."""
