"""What the sections of the page share: its values, times, colours and words."""
