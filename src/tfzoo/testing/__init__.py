"""Contract tests for anybody's component: ``tfzoo.testing.check("attention", "mine")``."""

from tfzoo.testing.contract import Result
from tfzoo.testing.runner import check

__all__ = ["Result", "check"]
