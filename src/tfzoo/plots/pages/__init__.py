"""Self-contained HTML pages, which open from disk without a network."""
