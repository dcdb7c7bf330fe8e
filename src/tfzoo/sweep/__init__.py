"""Ablation sweeps: plan, run, judge, report."""
