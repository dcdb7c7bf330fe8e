"""The folder of a run: checkpoints, summary, signals."""
