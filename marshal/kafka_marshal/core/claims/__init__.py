"""How a record changes a claim: both rule sets, their verdicts, and late readers."""
