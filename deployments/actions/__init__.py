"""The small things that steps are made of; importing this package knows all of them."""

from deployments.actions import (
    blue_green,
    canary,
    clean_up,
    manifests,
    run_task,
    scaling,
    service,
    service_tags,
    steady_state,
    task_definition,
)

__all__ = [
    "blue_green",
    "canary",
    "clean_up",
    "manifests",
    "run_task",
    "scaling",
    "service",
    "service_tags",
    "steady_state",
    "task_definition",
]
