"""The values of a replay: rows, tables, events, tenures, and their wording."""
