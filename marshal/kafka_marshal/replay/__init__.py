"""Production logs through the reducer: the only room that imports pyspark."""
