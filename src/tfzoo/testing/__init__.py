"""The contract tests, for anybody's component: ``tfzoo.testing.check("attention", "mine")``."""

from tfzoo.testing.contract import check
from tfzoo.testing.promise import Result

__all__ = ["Result", "check"]
