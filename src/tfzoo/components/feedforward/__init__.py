"""Position-wise layers, one per file."""
