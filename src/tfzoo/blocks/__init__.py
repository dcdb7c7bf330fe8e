"""Multi-head attention, layers, stacks and caches, and the rules for clashing components."""
