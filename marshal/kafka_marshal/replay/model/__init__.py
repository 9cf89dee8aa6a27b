"""The values of a replay: rows, tables, events, tenures, and how they are phrased."""
