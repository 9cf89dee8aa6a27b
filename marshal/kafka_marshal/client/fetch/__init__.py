"""Messages from a broker to an application's hand: fetched, buffered, in flight."""
