"""What an account has at a moment, without ids and dates, and how two such moments differ."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Call = Callable[[str, str, dict[str, Any]], dict[str, Any]]
State = dict[str, Any]

# What a service is asked to be. The rest of what AWS tells of one moves by itself.
OF_SERVICES = (
    "status",
    "desiredCount",
    "runningCount",
    "pendingCount",
    "taskDefinition",
    "launchType",
    "loadBalancers",
    "serviceRegistries",
    "networkConfiguration",
    "deploymentConfiguration",
    "healthCheckGracePeriodSeconds",
    "propagateTags",
    "enableECSManagedTags",
    "enableExecuteCommand",
)
OF_TARGETS = ("MinCapacity", "MaxCapacity", "SuspendedState", "ScalableDimension")
OF_POLICIES = ("PolicyName", "PolicyType", "TargetTrackingScalingPolicyConfiguration")
SCALING = {"ServiceNamespace": "ecs"}


def state_of(call: Call, cluster: str = "demo") -> State:
    """Services with their tags, tasks and scaling; listeners, rules and the targets behind them."""
    return {
        "services": _services(call, cluster),
        "tasks": _tasks(call, cluster),
        "listeners": _listeners(call),
        "target groups": _groups(call),
        "scalable targets": _scaling(call, "DescribeScalableTargets", "ScalableTargets", OF_TARGETS),
        "scaling policies": _scaling(call, "DescribeScalingPolicies", "ScalingPolicies", OF_POLICIES),
    }


def _services(call: Call, cluster: str) -> State:
    arns = call("ecs", "ListServices", {"cluster": cluster, "maxResults": 100})["serviceArns"]
    if not arns:
        return {}
    params = {"cluster": cluster, "services": arns, "include": ["TAGS"]}
    return {
        service["serviceName"]: _service(service)
        for service in call("ecs", "DescribeServices", params)["services"]
    }


def _service(service: Mapping[str, Any]) -> State:
    return {
        **{key: service.get(key) for key in OF_SERVICES},
        "deployments": [
            (
                deployment["status"],
                deployment["taskDefinition"],
                deployment["desiredCount"],
                deployment["runningCount"],
            )
            for deployment in service["deployments"]
        ],
        "tags": {tag["key"]: tag["value"] for tag in service.get("tags") or ()},
    }


def _tasks(call: Call, cluster: str) -> State:
    """Return the number of tasks by group and revision."""
    arns = call("ecs", "ListTasks", {"cluster": cluster})["taskArns"]
    tasks = call("ecs", "DescribeTasks", {"cluster": cluster, "tasks": arns})["tasks"] if arns else []
    return dict(Counter(f"{task['group']} of {task['taskDefinitionArn']}" for task in tasks))


def _listeners(call: Call) -> State:
    balancers = call("elbv2", "DescribeLoadBalancers", {})["LoadBalancers"]
    listeners = [
        listener
        for balancer in balancers
        for listener in call("elbv2", "DescribeListeners", {"LoadBalancerArn": balancer["LoadBalancerArn"]})[
            "Listeners"
        ]
    ]
    return {f"port {listener['Port']}": _rules(call, listener["ListenerArn"]) for listener in listeners}


def _rules(call: Call, listener: str) -> State:
    rules = call("elbv2", "DescribeRules", {"ListenerArn": listener})["Rules"]
    return {
        rule["Priority"]: {"conditions": rule["Conditions"], "forwards": _forwards(rule["Actions"])}
        for rule in rules
    }


def _forwards(actions: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the groups and weights of the actions; AWS has two forms for a single group."""
    forwards: list[Any] = []
    for action in actions:
        groups = action.get("ForwardConfig", {}).get("TargetGroups") or [
            {"TargetGroupArn": action.get("TargetGroupArn")}
        ]
        share = len(groups) > 1
        forwards.append(
            [(group["TargetGroupArn"], group.get("Weight") if share else None) for group in groups]
        )
    return forwards


def _groups(call: Call) -> State:
    """Return the number of targets of each group by state."""
    groups = call("elbv2", "DescribeTargetGroups", {})["TargetGroups"]
    return {group["TargetGroupName"]: _targets(call, group["TargetGroupArn"]) for group in groups}


def _targets(call: Call, group: str) -> State:
    descriptions = call("elbv2", "DescribeTargetHealth", {"TargetGroupArn": group})[
        "TargetHealthDescriptions"
    ]
    states = (
        f"{description['TargetHealth']['State']} on port {description['Target']['Port']}"
        for description in descriptions
    )
    return dict(Counter(state for state in states if not state.startswith("draining")))


def _scaling(call: Call, operation: str, member: str, keys: Sequence[str]) -> State:
    rows = call("application-autoscaling", operation, SCALING)[member]
    return {
        f"{row['ResourceId']} {row.get('PolicyName', '')}".strip(): {key: row.get(key) for key in keys}
        for row in rows
    }


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """Every place where two states differ, in words; none when they are the same."""
    return list(_differences(before, after, path))


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}, key=str):
            yield from _differences(before.get(key), after.get(key), f"{path} / {key}".removeprefix(" / "))
    elif before != after:
        yield f"{path}: {before!r} before, {after!r} after"
