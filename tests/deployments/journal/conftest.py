"""Pipelines of several steps in front of the sandbox."""

from tests.deployments.engine.conftest import write

__all__ = ["write"]
