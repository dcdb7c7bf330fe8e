"""Pictures of runs and of parts, drawn with matplotlib. Names load when touched, from where
``__init__.pyi`` says.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
