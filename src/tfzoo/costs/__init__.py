"""What a model costs: matrix products, computed values, saved bytes and parameters, by part."""
