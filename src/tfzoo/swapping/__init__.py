"""Parts of tfzoo in models that exist: :func:`tfzoo.swap`."""
