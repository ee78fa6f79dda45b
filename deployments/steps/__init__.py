"""The steps that a stage is made of; importing this package knows all of them."""

from deployments.steps import canary, rolling, run_task

__all__ = ["canary", "rolling", "run_task"]
