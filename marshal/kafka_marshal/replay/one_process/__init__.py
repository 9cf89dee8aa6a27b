"""A whole log folded by one process, and its rows as Arrow tables: what is answered about them."""
