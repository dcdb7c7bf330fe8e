"""From recipe and command line to one checked configuration.

- ``recipe``: what files and options say, in the order in which later ones override earlier ones;
  values are refused that would run code, fetch something or write elsewhere;
- ``config``: merges all to one value a key, converts it to the type of the argument that it is, and
  calls the constructors, which check what their values mean together.
"""
