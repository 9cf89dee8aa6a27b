"""Java: finds an installation, the jars that it runs, and archives that speed up its start."""
