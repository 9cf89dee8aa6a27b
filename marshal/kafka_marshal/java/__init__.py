"""Java: which one there is, the jars that it runs, and how it starts sooner."""
