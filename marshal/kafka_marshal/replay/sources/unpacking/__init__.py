"""Decompression within limits: refuses oversized input before it takes memory."""
