"""One vector of a text."""
