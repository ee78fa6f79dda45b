"""Service definitions that together set each member of botocore's CreateService request."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aws.shapes import get_input_shape, is_document_shape

Path = tuple[str, ...]
_ROLE: Final = "arn:aws:iam::123456789012:role/ecsInfrastructure"
_KEY: Final = "arn:aws:kms:us-east-1:123456789012:key/0f7c1c9e-6d0b-4b0e-9a39-3f1d2b7c5a11"
_TARGET: Final = {"targetGroupArn": "@target1", "containerName": "web", "containerPort": 80}
_NETWORK: Final = {"networkConfiguration": {"awsvpcConfiguration": {"subnets": "@subnets"}}}
_ON_FARGATE: Final = {"launchType": "FARGATE", **_NETWORK}
_ON_EC2: Final = {"launchType": "EC2"}
_CONNECTED: Final = {**_ON_FARGATE, "serviceConnectConfiguration": {"enabled": True, "namespace": "internal"}}

# Members that no manifest sets or that the sandbox does not have, each with its reason.
NOT_APPLICABLE: Final[Mapping[str, str]] = {
    "cluster": "the infrastructure definition names the cluster",
    "taskDefinition": "the task definition is a manifest of its own",
    "clientToken": "each request has its own token",
    "loadBalancers.loadBalancerName": "the sandbox has no Classic Load Balancers",
}
# The fields beside a member, by the start of its path. The longest start counts.
_BASES: Final[Mapping[str, Mapping[str, Any]]] = {
    "": _ON_FARGATE,
    "launchType": _NETWORK,
    "networkConfiguration": {"launchType": "FARGATE"},
    "capacityProviderStrategy": _NETWORK,
    "placementConstraints": _ON_EC2,
    "placementStrategy": _ON_EC2,
    "healthCheckGracePeriodSeconds": {**_ON_FARGATE, "loadBalancers": [_TARGET]},
    "loadBalancers.advancedConfiguration": {
        **_ON_FARGATE,
        "deploymentConfiguration": {"strategy": "BLUE_GREEN"},
    },
    "deploymentConfiguration": _CONNECTED,
}
# What AWS requires in a structure beside its required members, by the path of the structure.
_COMPANIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "loadBalancers": _TARGET,
    "serviceRegistries": {
        "registryArn": "arn:aws:servicediscovery:us-east-1:123456789012:service/srv-utcrh6wavdkggqtk"
    },
    "deploymentConfiguration.lifecycleHooks": {
        "hookTargetArn": "arn:aws:lambda:us-east-1:123456789012:function:check",
        "roleArn": _ROLE,
        "lifecycleStages": ["POST_TEST_TRAFFIC_SHIFT"],
    },
}
_STRATEGIES: Final[Mapping[str, str]] = {
    "bakeTimeInMinutes": "BLUE_GREEN",
    "lifecycleHooks": "BLUE_GREEN",
    "linearConfiguration": "LINEAR",
    "canaryConfiguration": "CANARY",
}
# Values that need a meaning, by the end of the path. `@name` is a resource of the account.
_VALUES: Final[Mapping[str, Any]] = {
    "serviceName": "shop",
    "desiredCount": 0,
    "launchType": "FARGATE",
    "schedulingStrategy": "REPLICA",
    "platformVersion": "1.4.0",
    "role": _ROLE,
    "roleArn": _ROLE,
    "kmsKey": _KEY,
    "kmsKeyId": _KEY,
    "propagateTags": "SERVICE",
    "deploymentController.type": "ECS",
    "deploymentConfiguration.maximumPercent": 150,
    "deploymentConfiguration.minimumHealthyPercent": 50,
    "deploymentConfiguration.strategy": "BLUE_GREEN",
    "bakeTimeInMinutes": 5,
    "stepPercent": 20.0,
    "canaryPercent": 12.5,
    "lifecycleHooks.targetType": "AWS_LAMBDA",
    "thresholdConfiguration.value": 60,
    "resetOnHealthyTask": False,
    "alternateTargetGroupArn": "@target2",
    "productionListenerRule": "@production rule",
    "testListenerRule": "@test rule",
    "vpcLatticeConfigurations.targetGroupArn": (
        "arn:aws:vpc-lattice:us-east-1:123456789012:targetgroup/tg-0123456789abcdef0"
    ),
    "awsPcaAuthorityArn": "arn:aws:acm-pca:us-east-1:123456789012:certificate-authority/0f7c1c9e",
    "containerName": "web",
    "containerPort": 80,
    "portName": "http",
    "capacityProvider": "FARGATE_SPOT",
    "placementConstraints.type": "memberOf",
    "placementConstraints.expression": "attribute:ecs.instance-type == m5.xlarge",
    "placementStrategy.type": "spread",
    "placementStrategy.field": "attribute:ecs.availability-zone",
    "subnets": "@subnets",
    "securityGroups": "@security groups",
    "assignPublicIp": "ENABLED",
    "volumeConfigurations.name": "data",
}


@dataclass(frozen=True)
class FieldExample:
    """A definition that sets `paths`: one top-level field, or the plain members of one structure."""

    name: str
    paths: tuple[Path, ...]
    definition: Mapping[str, Any] = field(repr=False)


def build_examples() -> Iterator[FieldExample]:
    """Yield the examples; together they set each member of CreateService that is applicable."""
    shape = get_input_shape("ecs", "CreateService")
    for name, member in shape.members.items():
        for paths in _group_members(member, (name,)):
            applicable = tuple(path for path in paths if ".".join(path) not in NOT_APPLICABLE)
            if applicable:
                structure = ".".join(applicable[0][:-1]) or name
                yield FieldExample(structure, applicable, _build_definition(shape, applicable))


def _group_members(shape: Any, path: Path) -> Iterator[list[Path]]:
    """Yield the paths of the plain members of each structure, without numbers of list entries."""
    if not (structure := _get_structure(shape)):
        yield [path]
        return
    plain = [name for name, member in structure.members.items() if not _get_structure(member)]
    yield [(*path, name) for name in plain]
    for name, member in structure.members.items():
        if name not in plain:
            yield from _group_members(member, (*path, name))


def _get_structure(shape: Any) -> Any:
    """Return the structure that a member is, or is a list of; None for plain values."""
    shape = shape.member if shape.type_name == "list" else shape
    return shape if shape.type_name == "structure" and not is_document_shape(shape) else None


def _build_definition(shape: Any, paths: tuple[Path, ...]) -> dict[str, Any]:
    dotted = [".".join(paths[0][:length]) for length in range(len(paths[0]), -1, -1)]
    base = next(_BASES[start] for start in dotted if start in _BASES)
    name = paths[0][0]
    definition = {"serviceName": "shop", "desiredCount": 0, **base}
    definition[name] = _build_value(shape.members[name], (name,), [path[1:] for path in paths])
    if name == "deploymentConfiguration" and len(paths[0]) > 1:
        strategy = next((_STRATEGIES[path[1]] for path in paths if path[1] in _STRATEGIES), "")
        definition[name] |= {"strategy": strategy} if strategy else {}
    return definition


def _build_value(shape: Any, path: Path, rests: list[Path]) -> Any:
    structure = _get_structure(shape)
    if structure is None:
        return _choose_value(shape, path)
    built = dict(_COMPANIONS.get(".".join(path), {}))
    names = [*structure.required_members, *(rest[0] for rest in rests if rest)]
    for name in dict.fromkeys(names):
        inner = [rest[1:] for rest in rests if rest and rest[0] == name]
        if name not in built:
            built[name] = _build_value(structure.members[name], (*path, name), inner)
    return [built] if shape.type_name == "list" else built


def _choose_value(shape: Any, path: Path) -> Any:
    for start in range(len(path)):
        if (name := ".".join(path[start:])) in _VALUES:
            return _VALUES[name]
    if is_document_shape(shape):
        return {"path": "/health", "codes": [200, 204]}
    match shape.type_name:
        case "string":
            return shape.enum[-1] if shape.enum else f"a-{path[-1]}"
        case "boolean":
            return True
        case "list":
            return [_choose_value(shape.member, path)]
        case "map":
            return {"first": "1", "second": "2"}
    return max(shape.metadata.get("min", 0), 7)
