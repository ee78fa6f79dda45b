"""CloudFormation stacks: remembered, created or updated, followed by their events, put back."""

from deployments.actions.stack.apply import ApplyStack
from deployments.actions.stack.delete import DeleteStack
from deployments.actions.stack.fetch import FetchStackTemplate
from deployments.actions.stack.ready import AwaitStack, ClearFailedStack, RememberStack

__all__ = [
    "ApplyStack",
    "AwaitStack",
    "ClearFailedStack",
    "DeleteStack",
    "FetchStackTemplate",
    "RememberStack",
]
