"""Positional encodings, one per file."""
