"""The strategies that fill a stage with steps."""

from deployments.strategies import canary, rolling

__all__ = ["canary", "rolling"]
