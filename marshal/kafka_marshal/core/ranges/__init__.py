"""What lies on top of a claim that several consumers share: ranges of offsets, each one's own."""
