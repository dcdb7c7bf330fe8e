"""Replaces norms and attentions of existing models by components: :func:`tfzoo.swap`."""
