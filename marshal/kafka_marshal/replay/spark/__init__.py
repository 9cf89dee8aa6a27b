"""Jobs as tasks of Spark: its session, its shuffle, what it answers and how it fails."""
