"""The parts of a Transformer, a folder for each kind."""
