"""Ablation sweeps: what to run, running it, and what it shows."""
