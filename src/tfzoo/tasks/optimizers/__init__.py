"""Optimisers, one per file."""
