"""Errors of CloudFormation, with AWS's codes and messages."""


class CloudFormationError(Exception):
    """A request that CloudFormation rejects; `code` is AWS's."""

    def __init__(self, message: str, code: str = "ValidationError") -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ResourceFailed(Exception):
    """A failed creation, update or deletion of a resource; the message is the reason in its event."""
