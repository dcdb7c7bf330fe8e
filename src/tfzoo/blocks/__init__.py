"""What assembles components: multi-head block, cache, layers, stacks, clashes."""
