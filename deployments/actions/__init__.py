"""The small things that steps are made of; importing this package knows all of them."""

from deployments.actions import (
    approval,
    blue_green,
    canary,
    clean_up,
    manifests,
    request,
    run_task,
    scale,
    scaling,
    script,
    service,
    service_tags,
    steady_state,
    task_definition,
    verify,
    waiting,
)

__all__ = [
    "approval",
    "blue_green",
    "canary",
    "clean_up",
    "manifests",
    "request",
    "run_task",
    "scale",
    "scaling",
    "script",
    "service",
    "service_tags",
    "steady_state",
    "task_definition",
    "verify",
    "waiting",
]
