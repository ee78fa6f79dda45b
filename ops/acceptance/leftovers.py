"""Deletion of what acceptance runs created in AWS: only resources with the name and the tag of a run."""

from collections.abc import Callable, Iterator
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
    AcceptanceRun,
)

MAX_REVISIONS: Final = 50
POLL_SECONDS: Final = 5.0
MAX_WAIT_SECONDS: Final = 600.0


@dataclass(frozen=True)
class LeftoverService:
    """ECS service that a run created."""

    run: AcceptanceRun
    name: str


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
                leftovers.append(LeftoverService(run, name))
    return leftovers


def delete_aws_resources(
    caller: Caller, cluster: str, run: AcceptanceRun, pause: Callable[[float], None]
) -> Iterator[str]:
    """Delete the services of a run, deregister its task definitions, and yield a sentence for each problem.

    Task definitions first: a later run finds what an interrupted deletion left by its service.
    """
    for family in (run.aws_name, run.aws_name + BLUE_GREEN_SUFFIX):
        yield from _deregister_family(EcsClient(caller), family, run)
    try:
        services = [each for each in list_leftover_services(caller, cluster) if each.run == run]
    except AwsError as problem:
        yield f"The services of run {run.id} cannot be listed: {problem}"
        return
    for service in services:
        yield from _delete_service(EcsClient(caller), cluster, service.name, pause)


def _get_run(name: str) -> AcceptanceRun | None:
    match = RUN_PATTERN.match(name.removeprefix(AWS_PREFIX)) if name.startswith(AWS_PREFIX) else None
    return AcceptanceRun(match.group()) if match else None


def _deregister_family(client: EcsClient, family: str, run: AcceptanceRun) -> Iterator[str]:
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


def _delete_service(
    client: EcsClient, cluster: str, name: str, pause: Callable[[float], None]
) -> Iterator[str]:
    try:
        client.delete_service(cluster, name, force=True)
        waited = 0.0
        while waited < MAX_WAIT_SECONDS:
            service = client.describe_service(cluster, name)
            if service is None or service.status == "INACTIVE":
                return
            pause(POLL_SECONDS)
            waited += POLL_SECONDS
    except AwsError as problem:
        yield f"The service {name} is left: {problem}"
        return
    yield f"The service {name} still drains. AWS deletes it when its tasks have stopped."
