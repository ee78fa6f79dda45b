"""Deletion of what acceptance runs created in AWS: only resources with the name and the tag of a run."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from aws.apis.ecs import EcsClient
from aws.apis.ecs_types import get_arn_name, parse_tags
from aws.caller import Caller
from aws.errors import AwsError, NotFound
from ops.acceptance.resources import (
    AWS_PREFIX,
    BLUE_GREEN_SUFFIX,
    RUN_PATTERN,
    TAG,
    RunKey,
)

MAX_REVISIONS: Final = 50


@dataclass(frozen=True)
class LeftoverService:
    """ECS service that a run created."""

    run: RunKey
    name: str
    is_draining: bool = False


def list_leftover_services(caller: Caller, cluster: str) -> list[LeftoverService]:
    """Return the services of a cluster with the name and the tag of an acceptance run.

    Raises `AwsError`.
    """
    client = EcsClient(caller)
    names = [name for arn in client.list_services(cluster) if _get_run(name := get_arn_name(arn))]
    leftovers = []
    for name in names:
        params = {"cluster": cluster, "services": [name], "include": ["TAGS"]}
        for service in caller.call("ecs", "DescribeServices", params).get("services", ()):
            run = _get_run(name)
            if run and parse_tags(service.get("tags")).get(TAG) == run.id:
                leftovers.append(LeftoverService(run, name, service.get("status") == "DRAINING"))
    return leftovers


def request_aws_deletion(caller: Caller, cluster: str, run: RunKey) -> tuple[list[str], list[str]]:
    """Deregister the task definitions of a run, and have AWS delete its services.

    Returns the names of the services, and a sentence for each problem. Task definitions first: a later run
    finds what an interrupted deletion left by its service.
    """
    client = EcsClient(caller)
    problems = [
        text
        for family in (run.aws_name, run.aws_name + BLUE_GREEN_SUFFIX)
        for text in _deregister_family(client, family, run)
    ]
    try:
        services = [each for each in list_leftover_services(caller, cluster) if each.run == run]
    except AwsError as problem:
        return [], [*problems, f"The services of run {run.id} cannot be listed: {problem}"]
    deleted = []
    for service in services:
        try:
            if not service.is_draining:
                client.delete_service(cluster, service.name, force=True)
            deleted.append(service.name)
        except AwsError as problem:
            problems.append(f"The service {service.name} is left: {problem}")
    return deleted, problems


def list_draining_services(caller: Caller, cluster: str, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the services with tasks that still stop, and a sentence for each problem."""
    draining, problems = [], []
    for name in names:
        try:
            service = EcsClient(caller).describe_service(cluster, name)
        except AwsError as problem:
            problems.append(f"The service {name} is left: {problem}")
            continue
        if service is not None and service.status != "INACTIVE":
            draining.append(name)
    return draining, problems


def _get_run(name: str) -> RunKey | None:
    match = RUN_PATTERN.match(name.removeprefix(AWS_PREFIX)) if name.startswith(AWS_PREFIX) else None
    return RunKey(match.group()) if match else None


def _deregister_family(client: EcsClient, family: str, run: RunKey) -> Iterator[str]:
    for _ in range(MAX_REVISIONS):
        try:
            definition = client.describe_task_definition(family, with_tags=True)
            if definition.tags.get(TAG) != run.id:
                yield f"The task definition {family}:{definition.revision} has no tag of this run and stays."
                return
            client.deregister_task_definition(definition.arn)
        except NotFound:
            return
        except AwsError as problem:
            yield f"Task definitions of {family} are left: {problem}"
            return
