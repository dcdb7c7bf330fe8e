"""From recipe and command line to one resolved, checked configuration."""
