"""Sweeps: train every combination of a recipe's parts and report which part made a difference."""
