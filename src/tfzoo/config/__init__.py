"""From recipe and command line to one checked configuration.

- ``sources``: files of recipes with their bases, and options of a command line, as plain values;
- ``security``: refuses values that would run code, fetch something or write elsewhere;
- ``recipe``: merges them, and what ``from`` gives, to one value a key, whose origin it knows;
- ``sections``: the keys of a recipe, with types and defaults, from constructors;
- ``config``: converts each value to its type, and calls the constructors, which check what their
  values mean together;
- ``lightning``: imports classes of Lightning and checks their options.
"""
