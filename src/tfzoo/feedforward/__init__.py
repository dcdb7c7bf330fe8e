"""Position-wise layers, one a file."""
