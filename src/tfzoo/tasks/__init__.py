"""Models with loss, metrics and optimiser: LightningModules."""
