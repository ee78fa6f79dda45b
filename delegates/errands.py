"""What is done where a connector leads that is not AWS: by a delegate, or by this Slipway itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aws.addresses import endpoint_of_service
from aws.errors import AwsError, Undelivered, from_record
from connectors.aws_accounts import read_spec
from connectors.host_keys import known_server
from connectors.kinds import read_any
from connectors.models import Connector
from connectors.sites import PASSWORD, SSH_KEY, SiteSpec, read_site, ssh_parts
from delegates.agent.executors import Answer
from delegates.agent.executors.aws import FETCH_OBJECTS
from delegates.doors import DoorClosed, call_payload, refuse_disabled
from delegates.host_keys import note_host_key
from delegates.models import DelegateTask
from delegates.owners import Payload
from delegates.terraform_cloud import (
    ASK_TERRAFORM,
    OPERATIONS,
    READ_TERRAFORM_LOG,
    error_of_terraform,
    kept_of_terraform,
    terraform_payload,
)
from delegates.work import do_here
from rbac.encryption import WrongKey

SERVICE: Final = "delegate"
"""What errands are called in the place of an AWS service."""
FETCH_FILES, LIST_REFS = "FetchFiles", "ListRefs"
PING_REGISTRY, LIST_TAGS, FIND_DIGEST = "PingRegistry", "ListTags", "FindDigest"
LIST_REPOSITORIES = "ListRepositories"
# The most that AWS gives at once; as a delegate's answer still far from the most that one may be.
ECR_PAGE: Final = 1000
# What is kept of each image and of each repository.
_KEPT: Final = {
    LIST_TAGS: ("imageDetails", ("imageTags", "imagePushedAt")),
    LIST_REPOSITORIES: ("repositories", ("repositoryName",)),
}
# Somebody waits for the answer.
HERE_SECONDS: Final = 25.0
_KINDS: Final = {
    FETCH_FILES: DelegateTask.Kind.GIT,
    LIST_REFS: DelegateTask.Kind.GIT,
    PING_REGISTRY: DelegateTask.Kind.DOCKER_REGISTRY,
    LIST_TAGS: DelegateTask.Kind.DOCKER_REGISTRY,
    FIND_DIGEST: DelegateTask.Kind.DOCKER_REGISTRY,
    LIST_REPOSITORIES: DelegateTask.Kind.DOCKER_REGISTRY,
    ASK_TERRAFORM: DelegateTask.Kind.HTTP,
    READ_TERRAFORM_LOG: DelegateTask.Kind.HTTP,
}
_PLACES: Final = {
    DelegateTask.Kind.GIT: Connector.Kind.GIT,
    DelegateTask.Kind.DOCKER_REGISTRY: Connector.Kind.DOCKER_REGISTRY,
    DelegateTask.Kind.HTTP: Connector.Kind.TERRAFORM_CLOUD,
}


@dataclass(frozen=True)
class SiteDoor:
    """The door of a connector whose errands a delegate does: what each of its tasks has to say."""

    connector: Connector

    region = ""

    @property
    def selectors(self) -> tuple[str, ...]:
        return read_any(self.connector.kind, self.connector.spec).delegate_selectors

    def criterion(self, _service: str) -> str:
        """The URL that an errand needs to reach (R035)."""
        if self.connector.kind == Connector.Kind.AWS:
            aws = read_spec(self.connector.spec)
            return endpoint_of_service("s3", aws.test_region, aws.endpoint_url or None)
        return ssh_parts(read_site(self.connector.spec).url)


@dataclass(frozen=True)
class SiteCaller:
    """Does errands from this process, at addresses where this Slipway may go."""

    connector: Connector

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of an errand. Raises `Undelivered` with the reason, `DoorClosed`."""
        refuse_disabled(self.connector)
        answer = do_errand_here(self.connector, operation, params, seconds=HERE_SECONDS)
        if operation in OPERATIONS:
            if problem := error_of_terraform(answer, is_write=False):
                raise problem
            return kept_result(self.connector, operation, answer.result or {})
        if answer.error is not None:
            raise error_of(answer.error, service, operation)
        return kept_of(operation, answer.result or {})


def kept_result(connector: Connector | None, operation: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a result of Terraform Cloud, whose token may be said again."""
    try:
        token = _secret(connector, read_site(connector.spec)) if connector else ""
    except DoorClosed:
        # It was taken away meanwhile, and opens nothing any more.
        token = ""
    return kept_of_terraform(operation, token, result)


def do_errand_here(
    connector: Connector,
    operation: str,
    params: Mapping[str, Any],
    *,
    seconds: float,
    secrets: Mapping[str, str] | None = None,
) -> Answer:
    """Do an errand within this process; `secrets` go along beside the login. Raises `DoorClosed`."""
    payload = errand_payload(connector, operation, params, secrets)
    answer = do_here(kind_of(operation, connector), payload, seconds=seconds)
    note_host_key(connector, read_site(connector.spec).url, answer)
    return answer


def open_site(connector: Connector) -> SiteDoor | SiteCaller:
    """The way to what a connector names: tasks for delegates, or this process."""
    return (
        SiteDoor(connector) if read_any(connector.kind, connector.spec).is_remote else SiteCaller(connector)
    )


def kind_of(operation: str, connector: Connector) -> DelegateTask.Kind:
    """The kind of task that an errand is."""
    return DelegateTask.Kind.AWS if connector.kind == Connector.Kind.AWS else _KINDS[operation]


def errand_payload(
    connector: Connector,
    operation: str,
    params: Mapping[str, Any],
    secrets: Mapping[str, str] | None = None,
) -> Payload:
    """What an executor needs for an errand, the connector's login among it; made only when it is begun.

    `secrets` are values that go along beside the login. Raises `DoorClosed` if the connector lacks something
    or is of another kind.
    """
    if kind_of(operation, connector) == DelegateTask.Kind.AWS:
        return call_payload(connector, str(params["region"]), *_aws_call(operation, params))
    _refuse_other_kind(connector, operation)
    site = read_site(connector.spec)
    secret = _secret(connector, site)
    if operation in OPERATIONS:
        return terraform_payload(connector, secret, operation, params, secrets or {})
    login: dict[str, str] = {}
    hosts: dict[str, list[str]] = {}
    if site.authentication == PASSWORD:
        login = {"username": site.username, "password": secret}
    elif site.authentication == SSH_KEY:
        login = {"ssh_key": secret}
        hosts = {"host_keys": [str(one) for one in known_server(connector).keys]}
    said = {**_asked(site, operation, params), **login, **hosts}
    return Payload(said, mask=tuple(line for line in (secret, *_lines(secret)) if line))


def _aws_call(operation: str, params: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """What an errand is at AWS: objects of S3, images of ECR (R180)."""
    if operation == FETCH_FILES:
        return (*FETCH_OBJECTS, {"bucket": params["bucket"], "paths": list(params["paths"])})
    after = {"nextToken": params["after"]} if params.get("after") else {}
    if operation == LIST_REPOSITORIES:
        return "ecr", "DescribeRepositories", {"maxResults": ECR_PAGE, **after}
    named = {"repositoryName": params["repository"]}
    if operation == FIND_DIGEST:
        return "ecr", "DescribeImages", {**named, "imageIds": [{"imageTag": params["tag"]}]}
    tagged = {"maxResults": ECR_PAGE, "filter": {"tagStatus": "TAGGED"}}
    return "ecr", "DescribeImages", {**named, **tagged, **after}


def kept_of(operation: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of an errand's result: ECR says far more of each image and repository."""
    if operation not in _KEPT:
        return dict(result)
    member, wanted = _KEPT[operation]
    listed = result.get(member)
    if not isinstance(listed, list):
        return dict(result)
    mappings = (one for one in listed if isinstance(one, Mapping))
    return {**result, member: [{key: one[key] for key in wanted if key in one} for one in mappings]}


def error_of(record: Mapping[str, Any], service: str, operation: str) -> AwsError:
    """What an executor's error is to whoever asked."""
    told = {key: str(value) for key, value in record.items()}
    if told.get("kind") not in (None, "TaskError"):
        return from_record(told)
    return Undelivered(told.get("code", ""), told.get("message", "no reason given"), service, operation)


def _asked(site: SiteSpec, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
    repository = str(params.get("repository") or "")
    if operation == LIST_REPOSITORIES:
        return {"catalog": True, "url": site.url}
    if _KINDS[operation] == DelegateTask.Kind.DOCKER_REGISTRY:
        return {**{key: params[key] for key in ("repository", "tag") if key in params}, "url": site.url}
    rest = {key: value for key, value in params.items() if key not in ("repository", "connector")}
    refs = {"refs": True} if operation == LIST_REFS else {}
    return {**rest, **refs, "url": site.url_of(repository)}


def _refuse_other_kind(connector: Connector, operation: str) -> None:
    if connector.kind != _PLACES[_KINDS[operation]]:
        raise DoorClosed(
            f"The connector {connector} is for {connector.get_kind_display()}: choose another one."
        )


def _secret(connector: Connector, site: SiteSpec) -> str:
    if not site.needs_secret:
        return ""
    if connector.secret is None:
        raise DoorClosed(f"The connector {connector} needs a secret and has none: edit it and choose one.")
    try:
        return connector.secret.value
    except WrongKey as wrong:
        raise DoorClosed(str(wrong)) from wrong


def _lines(secret: str) -> list[str]:
    """A key has lines, and a program may print one of them."""
    lines = [line.strip() for line in secret.splitlines()]
    return [line for line in lines if len(line) > 8] if len(lines) > 1 else []
