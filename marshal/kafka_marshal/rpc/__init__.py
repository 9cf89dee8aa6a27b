"""Encodes and decodes requests and answers between group members and their controller."""
