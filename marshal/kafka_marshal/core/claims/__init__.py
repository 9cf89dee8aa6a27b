"""What a record does to a claim: both rule sets, their verdicts, and who reads from the middle."""
