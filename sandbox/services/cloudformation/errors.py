"""Errors of CloudFormation, with AWS's codes and messages."""


class CloudFormationError(Exception):
    """A request that CloudFormation does not take; `code` is that of AWS."""

    def __init__(self, message: str, code: str = "ValidationError") -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ResourceFailed(Exception):
    """A resource could not be made, changed or deleted; the message is the reason in its event."""
