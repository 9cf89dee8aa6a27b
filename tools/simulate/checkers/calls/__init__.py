"""What an application relies on when it calls, or is called."""
