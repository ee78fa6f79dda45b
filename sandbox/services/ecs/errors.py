"""Errors of ECS, with AWS's codes and messages."""

from moto.ecs.exceptions import ECSException


class InvalidEcsParameter(ECSException):
    """A value that the API does not take."""

    def __init__(self, message: str) -> None:
        super().__init__("InvalidParameterException", message)


class EcsClientException(ECSException):
    """AWS's ClientException: a contradictory request, or one that names a missing resource."""

    def __init__(self, message: str) -> None:
        super().__init__("ClientException", message)


class ServiceNotActive(ECSException):
    """Error of a service that is draining or deleted."""

    def __init__(self) -> None:
        super().__init__("ServiceNotActiveException", "Service was not ACTIVE.")


class ClientTokenConflict(ECSException):
    """A client token was used again for something else."""

    def __init__(self, resource_ids: list[str]) -> None:
        super().__init__(
            "ConflictException", "The provided client token was already used with other parameters."
        )
        self.resourceIds = resource_ids


class ClusterNotEmpty(ECSException):
    """A cluster that still has something in it cannot be deleted."""

    def __init__(self, content: str) -> None:
        super().__init__(
            f"ClusterContains{content}Exception", f"The Cluster cannot be deleted while {content} are active."
        )


class ServiceDeploymentNotFound(ECSException):
    """No service deployment has this ARN."""

    def __init__(self) -> None:
        super().__init__("ServiceDeploymentNotFoundException", "Service deployment not found.")


class DeploymentNotStoppable(ECSException):
    """Error raised for an ended service deployment, or without a deployment to return to."""

    def __init__(self, status: str) -> None:
        super().__init__(
            "ConflictException", f"A service deployment in status {status} cannot be rolled back."
        )
