"""Multi-head blocks, caches, layers and stacks, built from components; and which clash."""
