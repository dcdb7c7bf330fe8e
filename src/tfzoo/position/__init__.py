"""Positional encodings, one a file."""
