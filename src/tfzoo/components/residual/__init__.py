"""Norm and residual connection around a sublayer, one per file."""
