"""Actions on CloudFormation stacks: save, create or update, delete, roll back."""

from steps.actions.cloudformation.changes import (
    ApplyStack,
    DeleteFailedStack,
    DeleteStack,
    FetchStackTemplate,
    SaveStack,
    WaitForStack,
)

__all__ = [
    "ApplyStack",
    "DeleteFailedStack",
    "DeleteStack",
    "FetchStackTemplate",
    "SaveStack",
    "WaitForStack",
]
