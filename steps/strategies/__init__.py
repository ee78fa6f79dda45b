"""The strategies that fill a stage with steps."""

from steps.strategies import blue_green, canary, rolling

__all__ = ["blue_green", "canary", "rolling"]
