"""Normalisations, one per file."""
