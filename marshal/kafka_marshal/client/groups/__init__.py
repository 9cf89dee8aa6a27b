"""Groups with a controller: the controller's server, and its clients."""
