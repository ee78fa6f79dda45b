"""An answer of AWS about a service behind two target groups, and its reading."""

from copy import deepcopy
from typing import Any, Final

from inventory.strategy_changes.readings import ServiceReading

ARN: Final = "arn:aws:elasticloadbalancing:us-east-1:123456789012:"
BLUE, GREEN = f"{ARN}targetgroup/blue/1", f"{ARN}targetgroup/green/2"
PRODUCTION, TEST = f"{ARN}listener-rule/app/demo/1/80", f"{ARN}listener-rule/app/demo/1/8080"
ROLE: Final = "arn:aws:iam::123456789012:role/ecsInfrastructureRole"
SERVICE: Final[dict[str, Any]] = {
    "serviceName": "shop",
    "status": "ACTIVE",
    "desiredCount": 2,
    "runningCount": 2,
    "pendingCount": 0,
    "deploymentConfiguration": {"strategy": "ROLLING"},
    "loadBalancers": [{"targetGroupArn": BLUE, "containerName": "web", "containerPort": 80}],
    "deployments": [{"status": "PRIMARY"}],
    "taskSets": [],
}


def build_option(**changes: Any) -> dict[str, Any]:
    """Return the answer of a lookup; `changes` are fields of the ECS service."""
    routes = [
        {
            "balancer": "demo",
            "listener": f"{ARN}listener/app/demo/1/{port}",
            "rule": rule,
            "is_default": True,
            "title": f"HTTP {port}, default rule: {group.split('/')[1]}",
            "weights": {group: 100},
        }
        for port, rule, group in ((80, PRODUCTION, BLUE), (8080, TEST, GREEN))
    ]
    groups = [{"arn": arn, "name": arn.split("/")[1], "port": 80, "is_used": True} for arn in (BLUE, GREEN)]
    return {"services": [{**deepcopy(SERVICE), **changes}], "routes": routes, "groups": groups}


def build_reading(**changes: Any) -> ServiceReading:
    return ServiceReading.from_option("shop", build_option(**changes))
