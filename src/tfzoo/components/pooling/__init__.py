"""Poolings, one per file: one vector per sequence."""
