"""Messages on their way from a broker to the application: fetched, buffered, in flight."""
