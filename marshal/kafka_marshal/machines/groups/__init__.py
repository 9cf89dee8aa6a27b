"""Groups with a controller, without IO: the server of the controllers, and a member."""
