"""The steps that a stage is made of; importing this package knows all of them."""

from deployments.steps import rolling

__all__ = ["rolling"]
