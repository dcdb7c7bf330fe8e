"""An attention for tfzoo."""
