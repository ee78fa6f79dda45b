"""Express services, made through any client's view of an endpoint."""

from typing import Any

from tests.contract.endpoint import CLUSTER, Aws

INFRASTRUCTURE_ROLE = "arn:aws:iam::123456789012:role/ecsInfrastructureRoleForExpressServices"


def create_express_service(aws: Aws, name: str = "shop", tag: str = "v1", **changes: Any) -> dict[str, Any]:
    """Create an Express service in the cluster of the endpoint, and return it."""
    response = aws.ecs.create_express_gateway_service(
        cluster=CLUSTER,
        serviceName=name,
        infrastructureRoleArn=INFRASTRUCTURE_ROLE,
        executionRoleArn=aws.endpoint.execution_role_arn,
        primaryContainer={"image": f"myapp:{tag}"},
        **changes,
    )
    service: dict[str, Any] = response["service"]
    return service


def describe_express_service(aws: Aws, arn: str) -> dict[str, Any]:
    service: dict[str, Any] = aws.ecs.describe_express_gateway_service(serviceArn=arn)["service"]
    return service


def get_image(configuration: dict[str, Any]) -> str:
    return str(configuration["primaryContainer"]["image"])
