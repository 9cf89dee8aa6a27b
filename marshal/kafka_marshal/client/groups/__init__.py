"""Groups with a controller: the server that a controller runs in, and what asks it."""
