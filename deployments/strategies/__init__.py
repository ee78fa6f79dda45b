"""The strategies that fill a stage with steps."""

from deployments.strategies import blue_green, canary, rolling

__all__ = ["blue_green", "canary", "rolling"]
