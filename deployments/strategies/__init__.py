"""The strategies that fill a stage with steps."""

from deployments.strategies import rolling

__all__ = ["rolling"]
