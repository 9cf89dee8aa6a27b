"""Groups whose members talk to a controller: what the controller decides, and what follows."""
