"""Folds a whole log in one process, keeps its rows as Arrow tables, and answers queries on them."""
