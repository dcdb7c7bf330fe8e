"""What mixes the tokens of a layer, one per file."""
