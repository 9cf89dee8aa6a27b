"""The page's sections: each draws one thing, from values alone."""
