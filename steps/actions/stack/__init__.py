"""CloudFormation stacks: remembered, created or updated, followed by their events, put back."""

from steps.actions.stack.apply import ApplyStack
from steps.actions.stack.delete import DeleteStack
from steps.actions.stack.fetch import FetchStackTemplate
from steps.actions.stack.ready import AwaitStack, ClearFailedStack, RememberStack

__all__ = [
    "ApplyStack",
    "AwaitStack",
    "ClearFailedStack",
    "DeleteStack",
    "FetchStackTemplate",
    "RememberStack",
]
