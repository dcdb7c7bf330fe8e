"""The Transformer models."""
