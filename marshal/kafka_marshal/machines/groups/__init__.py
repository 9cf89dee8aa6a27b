"""Groups with a controller, without IO: one member, and the clock that it goes by."""
