"""Who a container runs as, its volumes, and where it runs: refused before anything is started (R133-R138)."""

from typing import Any

import pytest

from aws.validation.parameters import validate_parameters
from aws.validation.rules import compatibility
from tests.aws.test_validation import build_ec2_task, container, service, task, validate_task


def efs(**settings: Any) -> list[dict[str, Any]]:
    return [{"name": "data", "efsVolumeConfiguration": {"fileSystemId": "fs-0123abcd", **settings}}]


def request(**changes: Any) -> dict[str, Any]:
    vpc = {"subnets": ["subnet-0a"], "securityGroups": ["sg-0a"]}
    base = {
        "taskDefinition": "web",
        "launchType": "FARGATE",
        "networkConfiguration": {"awsvpcConfiguration": vpc},
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("definition", "place", "message"),
    [
        (task(volumes=efs(fileSystemId="vol-1")), "fileSystemId", "one looks like fs-0123abcd"),
        (task(volumes=efs(rootDirectory="data")), "rootDirectory", "start with /"),
        (
            task(
                volumes=efs(
                    rootDirectory="/data",
                    transitEncryption="ENABLED",
                    authorizationConfig={"accessPointId": "fsap-0123abcd"},
                )
            ),
            "rootDirectory",
            "brings its own root directory",
        ),
        (
            task(volumes=efs(authorizationConfig={"accessPointId": "fsap-0123abcd"})),
            "efsVolumeConfiguration",
            "needs transitEncryption",
        ),
        (
            task(volumes=efs(transitEncryption="ENABLED", authorizationConfig={"iam": "ENABLED"})),
            "authorizationConfig.iam",
            "elasticfilesystem:ClientMount",
        ),
        (
            task(volumes=efs(transitEncryptionPort=2049)),
            "transitEncryptionPort",
            "only used with transitEncryption",
        ),
        (
            task(
                volumes=[
                    {
                        "name": "win",
                        "fsxWindowsFileServerVolumeConfiguration": {
                            "fileSystemId": "fs-1",
                            "rootDirectory": "x",
                            "authorizationConfig": {"credentialsParameter": "a", "domain": "b"},
                        },
                    }
                ]
            ),
            "fsxWindowsFileServerVolumeConfiguration",
            "not possible on Fargate",
        ),
        (task(container(user="1000 1000")), "user", "is not a user"),
        (
            task(container(linuxParameters={"capabilities": {"drop": ["EVERYTHING"]}})),
            "capabilities.drop[0]",
            "is not a capability",
        ),
    ],
)
def test_security_and_volumes_are_checked(definition: dict[str, Any], place: str, message: str) -> None:
    (problem,) = validate_task(definition)
    assert problem.location.endswith(place)
    assert message in problem.message


@pytest.mark.parametrize(
    "definition",
    [
        task(volumes=efs(rootDirectory="/data")),
        task(
            volumes=efs(
                transitEncryption="ENABLED",
                authorizationConfig={"accessPointId": "fsap-0123abcd", "iam": "ENABLED"},
            ),
            taskRoleArn="arn:aws:iam::123456789012:role/task",
        ),
        task(container(user="1000:1000", readonlyRootFilesystem=True)),
        task(container(linuxParameters={"capabilities": {"drop": ["ALL"]}})),
        build_ec2_task(volumes=[{"name": "docker", "host": {"sourcePath": "/var/run/docker.sock"}}]),
        build_ec2_task(
            containerDefinitions=[
                container(
                    privileged=True, linuxParameters={"capabilities": {"add": ["NET_ADMIN", "SYS_ADMIN"]}}
                )
            ]
        ),
    ],
)
def test_what_the_launch_type_has_is_let_through(definition: dict[str, Any]) -> None:
    assert validate_task(definition) == []


@pytest.mark.parametrize(
    ("parameters", "definition", "place"),
    [
        (request(), build_ec2_task(networkMode="awsvpc"), "launchType"),
        (
            request(launchType=None, capacityProviderStrategy=[{"capacityProvider": "FARGATE_SPOT"}]),
            build_ec2_task(networkMode="awsvpc"),
            "capacityProviderStrategy",
        ),
        (request(launchType="EC2"), task(), "launchType"),
        (request(platformVersion="1.3.0"), task(volumes=efs()), "platformVersion"),
        (service(platformVersion="1.3.0"), task(volumes=efs()), "platformVersion"),
        (
            request(overrides={"containerOverrides": [{"name": "other"}]}),
            task(),
            "overrides.containerOverrides[0].name",
        ),
    ],
)
def test_a_request_goes_with_its_task_definition(
    parameters: dict[str, Any], definition: dict[str, Any], place: str
) -> None:
    (problem,) = compatibility.validate_compatibility(parameters, definition)
    assert problem.location == place


@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        (request(count=0), "count"),
        (request(group="service:web"), "group"),
        (request(placementConstraints=[{"type": "distinctInstance"}]), "placementConstraints"),
        (request(capacityProviderStrategy=[{"capacityProvider": "FARGATE"}]), "capacityProviderStrategy"),
        (request(networkConfiguration=None), "networkConfiguration"),
        (
            request(overrides={"ephemeralStorage": {"sizeInGiB": 20}}),
            "overrides.ephemeralStorage.sizeInGiB",
        ),
        (request(launchType="EC2", placementStrategy=[{"type": "random"}] * 6), "placementStrategy"),
    ],
)
def test_a_request_that_ecs_would_refuse_is_told(parameters: dict[str, Any], place: str) -> None:
    assert place in [problem.location for problem in validate_parameters("ecs", "RunTask", parameters)]
