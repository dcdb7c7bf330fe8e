"""From recipe and command line to one resolved, checked configuration.

:func:`tfzoo.config.resolve.resolve` calls, in this order:

- ``sources``: recipes with their bases, ``--config`` files and options of a command line, to
  plain values of limited size;
- ``security``: refuses values that would run code, fetch something or write elsewhere;
- ``sections``: the keys of a recipe, with types and defaults, from constructors;
- ``merge``: defaults, recipes, ``--config`` files and options to one value for each key;
- ``validation``: converts each value to its type and checks its range;
- ``lightning``: imports classes of Lightning and checks their options;
- the constructors of all other sections, which check what their values mean together.
"""
