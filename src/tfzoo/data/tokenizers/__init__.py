"""Tokenizers, one a file."""
