"""Built-in data sets, one per file."""
