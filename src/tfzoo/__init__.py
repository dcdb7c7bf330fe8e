"""Interchangeable Transformer components for PyTorch Lightning.

Names load when touched, from where ``__init__.pyi`` says: ``import tfzoo`` imports neither torch
nor lightning.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
