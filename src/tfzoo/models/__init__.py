"""Models made of stacks."""
