"""Requests and answers between members of a group and its controller, as bytes and back."""
