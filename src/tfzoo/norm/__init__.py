"""Normalisations, one a file."""
