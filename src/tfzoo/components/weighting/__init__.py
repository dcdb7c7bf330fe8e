"""From scores to weights, one per file."""
