"""Deleting the ECS services that deployments left behind."""

from steps.actions.clean_up import delete

__all__ = ["delete"]
