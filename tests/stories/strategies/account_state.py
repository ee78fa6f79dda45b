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
    asked = {"cluster": cluster, "services": arns, "include": ["TAGS"]}
    return {one["serviceName"]: _service(one) for one in call("ecs", "DescribeServices", asked)["services"]}


def _service(found: Mapping[str, Any]) -> State:
    return {
        **{key: found.get(key) for key in OF_SERVICES},
        "deployments": [
            (one["status"], one["taskDefinition"], one["desiredCount"], one["runningCount"])
            for one in found["deployments"]
        ],
        "tags": {tag["key"]: tag["value"] for tag in found.get("tags") or ()},
    }


def _tasks(call: Call, cluster: str) -> State:
    """How many tasks run of which revision, for which service or person."""
    arns = call("ecs", "ListTasks", {"cluster": cluster})["taskArns"]
    found = call("ecs", "DescribeTasks", {"cluster": cluster, "tasks": arns})["tasks"] if arns else []
    return dict(Counter(f"{one['group']} of {one['taskDefinitionArn']}" for one in found))


def _listeners(call: Call) -> State:
    balancers = call("elbv2", "DescribeLoadBalancers", {})["LoadBalancers"]
    listeners = [
        one
        for balancer in balancers
        for one in call("elbv2", "DescribeListeners", {"LoadBalancerArn": balancer["LoadBalancerArn"]})[
            "Listeners"
        ]
    ]
    return {f"port {one['Port']}": _rules(call, one["ListenerArn"]) for one in listeners}


def _rules(call: Call, listener: str) -> State:
    rules = call("elbv2", "DescribeRules", {"ListenerArn": listener})["Rules"]
    return {
        one["Priority"]: {"conditions": one["Conditions"], "forwards": _forwards(one["Actions"])}
        for one in rules
    }


def _forwards(actions: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The groups and weights of the actions: AWS answers one group in two spellings."""
    found: list[Any] = []
    for one in actions:
        groups = one.get("ForwardConfig", {}).get("TargetGroups") or [
            {"TargetGroupArn": one.get("TargetGroupArn")}
        ]
        share = len(groups) > 1
        found.append([(group["TargetGroupArn"], group.get("Weight") if share else None) for group in groups])
    return found


def _groups(call: Call) -> State:
    """How many targets of a group are in which state; their addresses are those of tasks."""
    groups = call("elbv2", "DescribeTargetGroups", {})["TargetGroups"]
    return {one["TargetGroupName"]: _targets(call, one["TargetGroupArn"]) for one in groups}


def _targets(call: Call, group: str) -> State:
    found = call("elbv2", "DescribeTargetHealth", {"TargetGroupArn": group})["TargetHealthDescriptions"]
    states = (f"{one['TargetHealth']['State']} on port {one['Target']['Port']}" for one in found)
    return dict(Counter(state for state in states if not state.startswith("draining")))


def _scaling(call: Call, operation: str, member: str, keys: Sequence[str]) -> State:
    found = call("application-autoscaling", operation, SCALING)[member]
    return {
        f"{one['ResourceId']} {one.get('PolicyName', '')}".strip(): {key: one.get(key) for key in keys}
        for one in found
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
