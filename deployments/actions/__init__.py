"""The small things that steps are made of; importing this package knows all of them."""

from deployments.actions import manifests, scaling, service, steady_state, task_definition

__all__ = ["manifests", "scaling", "service", "steady_state", "task_definition"]
