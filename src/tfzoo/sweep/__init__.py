"""Sweeps: one file swaps parts of a recipe, runs everything and tells which swap mattered."""
