"""The contract tests, over anybody's component."""
