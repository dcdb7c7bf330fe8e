"""Built-in data sets, one a file."""
