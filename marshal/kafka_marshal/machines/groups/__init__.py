"""Groups with a controller, without IO: the server that controls them, and one member."""
