"""Fair share: which claims a member asks for and gives back, and when (Share.tla)."""
