"""What all tasks share: their training step, evaluation, settings, losses and checkpoints."""
