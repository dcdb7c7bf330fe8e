"""From recipe and command line to one checked configuration.

- ``files``: files of recipes with their bases, and options of a command line, as plain values;
  those are refused that would run code, fetch something or write elsewhere;
- ``start``: the class of the task, and what ``from`` gives;
- ``config``: merges all to one value a key, converts it to the type of the argument that it is, and
  calls the constructors, which check what their values mean together;
- ``lightning``: imports classes of Lightning and checks their options.
"""
