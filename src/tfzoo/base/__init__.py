"""What every other room uses: registry, values, terminal, dtypes and autograd."""
