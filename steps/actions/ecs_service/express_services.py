"""Express services: load balancer, auto scaling and deployments are managed by ECS itself.

Source: ECS API, Service.resourceManagementType and CreateExpressGatewayService.
"""

from collections.abc import Mapping
from typing import Any, Final

from steps.actions.base import ActionFailed

EXPRESS_REASON: Final = (
    "It is an Express service: ECS itself manages its load balancer, auto scaling and deployments, by a "
    "definition of its own"
)
EXPRESS_ADVICE: Final = (
    "Deploy it in AWS with aws ecs update-express-gateway-service, or create an ECS service of your own "
    "beside it and delete it once that has the traffic"
)


def is_express(service: Mapping[str, Any]) -> bool:
    """Return whether a description of DescribeServices is that of an Express service."""
    return service.get("resourceManagementType") == "ECS"


def refuse_express(name: str, service: Mapping[str, Any]) -> None:
    """Raise `ActionFailed` for an Express service, which no step may change."""
    if is_express(service):
        raise ActionFailed(
            "CONTROLLER_NOT_SUPPORTED",
            f"Service {name} is left alone. {EXPRESS_REASON}. {EXPRESS_ADVICE}.",
        )
