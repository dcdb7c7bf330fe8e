"""Attention functions, one a file."""
