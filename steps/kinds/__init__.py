"""The steps that a stage is made of; importing this package knows all of them."""

from steps.kinds import (
    approval,
    blue_green,
    canary,
    clean_up,
    http,
    provision_script,
    rolling,
    run_task,
    scale,
    script,
    stack,
    terraform,
    terraform_cloud,
    verify,
    waiting,
)

__all__ = [
    "approval",
    "blue_green",
    "canary",
    "clean_up",
    "http",
    "provision_script",
    "rolling",
    "run_task",
    "scale",
    "stack",
    "script",
    "terraform",
    "terraform_cloud",
    "verify",
    "waiting",
]
