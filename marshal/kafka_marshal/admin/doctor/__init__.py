"""Checks whether a cluster meets the protocol's needs: each check is a function of facts."""
