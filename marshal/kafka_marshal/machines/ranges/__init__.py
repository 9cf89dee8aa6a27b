"""One participant of a shared claim: what it may do (Participant.tla), and when."""
