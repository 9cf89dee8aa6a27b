"""Whether a cluster keeps what the protocol needs: each check a function of facts."""
