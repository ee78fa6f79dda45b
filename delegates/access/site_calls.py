"""Site calls to Git servers, registries and Terraform Cloud, here or as delegate tasks."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import uuid4

from django.conf import settings

from aws.errors import AwsError, Undelivered, parse_error_record
from aws.regions import get_service_endpoint
from connectors.host_keys import clear_offered_key, get_known_server, get_server_address, record_host_key
from connectors.models import Connector
from connectors.secret_managers.base import SecretPending, SecretUnreadable
from connectors.secret_values import read_secret_value
from connectors.specs.aws import parse_aws_spec
from connectors.specs.sites import (
    PASSWORD,
    SSH_KEY,
    SiteSpec,
    describe_repository_problem,
    normalize_ssh_url,
    parse_connector_spec,
    parse_site_spec,
)
from delegates.access.aws_access import (
    ConnectorPending,
    ConnectorUnavailable,
    build_aws_payload,
    require_built_in_enabled,
)
from delegates.access.terraform_cloud import (
    CALL_TERRAFORM,
    OPERATIONS,
    READ_TERRAFORM_LOG,
    build_terraform_error,
    build_terraform_payload,
    redact_terraform_result,
)
from delegates.agent.executors import ExecutorContext, TaskResult, execute_task
from delegates.agent.executors.aws import FETCH_OBJECTS
from delegates.agent.isolation import detect_isolation
from delegates.agent.tasks import AgentTask, HeldTask
from delegates.models import DelegateTask
from delegates.task_owners import TaskPayload
from guards.masks import HidingMask
from web.http.client import get_outgoing_reach


def run_locally(kind: str, payload: TaskPayload, *, seconds: float) -> TaskResult:
    """Run one task in this process, restricted to addresses permitted for Slipway.

    `kind` is one of `DelegateTask.Kind`; scripts are refused.
    """
    task = AgentTask(
        id=str(uuid4()),
        kind=kind,
        params=dict(payload.params),
        fence=1,
        acquired_at=time.monotonic(),
        timeout_seconds=seconds,
        mask=payload.mask,
    )
    around = ExecutorContext(
        _DiscardedLog(),
        blocks_shell=True,
        token_files=None,
        reach=get_outgoing_reach(),
        git_cache=settings.GIT_CACHE,
        isolation=detect_isolation().with_hidden(settings.HOME),
        max_result_bytes=None,
    )
    return execute_task(HeldTask(task), around)


class _DiscardedLog:
    """Log that discards the output of work in this process."""

    def write(self, level: str, text: str) -> None:
        """Discard the text; the result of requests and file reads is complete without a log."""


def build_secret_payload(params: Mapping[str, Any], values: Mapping[str, str]) -> TaskPayload:
    """Return the parameters with secrets inserted.

    `values` are the secrets by path, such as `environment.TOKEN`.
    """
    filled = {name: dict(param) if isinstance(param, Mapping) else param for name, param in params.items()}
    for path, value in values.items():
        name, _, inside = path.partition(".")
        if inside:
            filled.setdefault(name, {})[inside] = value
        else:
            filled[name] = value
    return TaskPayload(filled, mask=tuple(values.values()))


class _GitOutcome(Protocol):
    @property
    def result(self) -> Mapping[str, Any] | None: ...
    @property
    def error(self) -> Mapping[str, Any] | None: ...


def record_answered_host_key(connector: Connector | None, url: str, answer: _GitOutcome) -> None:
    """Store the host key of a response, if any; `url` is the connector's URL at the time of the call."""
    if connector is None or connector.kind != Connector.Kind.GIT:
        return
    if host_key := (answer.result or {}).get("host_key"):
        record_host_key(connector, get_server_address(url), str(host_key))
    elif answer.result and connector.host_key.get("offered"):
        clear_offered_key(connector)
    if offered := (answer.error or {}).get("host_key"):
        record_host_key(connector, get_server_address(url), str(offered), is_refused=True)


SITE_SERVICE: Final = "delegate"
"""Service name of site calls in the place of an AWS service."""
FETCH_FILES, LIST_REFS, PUSH_FILE = "FetchFiles", "ListRefs", "PushFile"
FIND_COMMIT = "FindCommit"
PING_REGISTRY, LIST_TAGS, FIND_DIGEST = "PingRegistry", "ListTags", "FindDigest"
LIST_REPOSITORIES = "ListRepositories"
# The largest page of AWS; a delegate's response of this size is far below its limit.
ECR_PAGE: Final = 1000
# Stored fields of each image and repository.
_STORED_FIELDS: Final = {
    LIST_TAGS: ("imageDetails", ("imageTags", "imagePushedAt", "imageDigest")),
    LIST_REPOSITORIES: ("repositories", ("repositoryName",)),
}
# A user waits for the response.
LOCAL_TIMEOUT_SECONDS: Final = 25.0
_KINDS: Final = {
    FETCH_FILES: DelegateTask.Kind.GIT,
    LIST_REFS: DelegateTask.Kind.GIT,
    PUSH_FILE: DelegateTask.Kind.GIT,
    FIND_COMMIT: DelegateTask.Kind.GIT,
    PING_REGISTRY: DelegateTask.Kind.DOCKER_REGISTRY,
    LIST_TAGS: DelegateTask.Kind.DOCKER_REGISTRY,
    FIND_DIGEST: DelegateTask.Kind.DOCKER_REGISTRY,
    LIST_REPOSITORIES: DelegateTask.Kind.DOCKER_REGISTRY,
    CALL_TERRAFORM: DelegateTask.Kind.HTTP,
    READ_TERRAFORM_LOG: DelegateTask.Kind.HTTP,
}
_CONNECTOR_KINDS: Final = {
    DelegateTask.Kind.GIT: Connector.Kind.GIT,
    DelegateTask.Kind.DOCKER_REGISTRY: Connector.Kind.DOCKER_REGISTRY,
    DelegateTask.Kind.HTTP: Connector.Kind.TERRAFORM_CLOUD,
}


@dataclass(frozen=True)
class DelegateSiteAccess:
    """Site access of a connector through delegates; it supplies the fields of each delegate task."""

    connector: Connector

    region = ""

    @property
    def selectors(self) -> tuple[str, ...]:
        return parse_connector_spec(self.connector.kind, self.connector.spec).delegate_selectors

    def criterion(self, _service: str) -> str:
        """Return the URL that a site call must reach (R035)."""
        if self.connector.kind == Connector.Kind.AWS:
            aws = parse_aws_spec(self.connector.spec)
            return get_service_endpoint("s3", aws.test_region, aws.endpoint_url or None)
        return normalize_ssh_url(parse_site_spec(self.connector.spec).url)


@dataclass(frozen=True)
class SiteCaller:
    """Caller that runs site calls in this process, restricted to permitted addresses."""

    connector: Connector

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a site call. Raises `Undelivered` with the reason, `ConnectorUnavailable`."""
        require_built_in_enabled(self.connector)
        answer = run_site_call_locally(self.connector, operation, params, seconds=LOCAL_TIMEOUT_SECONDS)
        if operation in OPERATIONS:
            if problem := build_terraform_error(answer, is_write=False):
                raise problem
            return redact_result(self.connector, operation, answer.result or {})
        if answer.error is not None:
            raise build_site_error(answer.error, service, operation)
        return trim_result(operation, answer.result or {})


def redact_result(connector: Connector | None, operation: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Terraform Cloud result without its token, which a response may repeat."""
    try:
        token = _get_secret(connector, parse_site_spec(connector.spec)) if connector else ""
    except ConnectorUnavailable as problem:
        if isinstance(problem.__cause__, SecretUnreadable):
            mask = HidingMask(str(problem))
            return {name: mask.mask_json(value) for name, value in result.items()}
        # The secret was deleted meanwhile.
        token = ""
    return redact_terraform_result(operation, token, result)


def run_site_call_locally(
    connector: Connector,
    operation: str,
    params: Mapping[str, Any],
    *,
    seconds: float,
    secrets: Mapping[str, str] | None = None,
) -> TaskResult:
    """Run a site call in this process; `secrets` are passed in addition to the credentials.

    Raises `ConnectorUnavailable`.
    """
    payload = build_site_payload(connector, operation, params, secrets)
    answer = run_locally(get_task_kind(operation, connector), payload, seconds=seconds)
    record_answered_host_key(connector, parse_site_spec(connector.spec).url, answer)
    return answer


def open_site_access(connector: Connector) -> DelegateSiteAccess | SiteCaller:
    """Return the site access of a connector: delegate tasks or this process."""
    return (
        DelegateSiteAccess(connector)
        if parse_connector_spec(connector.kind, connector.spec).is_remote
        else SiteCaller(connector)
    )


def get_task_kind(operation: str, connector: Connector) -> DelegateTask.Kind:
    """Return the task kind of a site call."""
    return DelegateTask.Kind.AWS if connector.kind == Connector.Kind.AWS else _KINDS[operation]


def build_site_payload(
    connector: Connector,
    operation: str,
    params: Mapping[str, Any],
    secrets: Mapping[str, str] | None = None,
) -> TaskPayload:
    """Return the parameters of a site call for an executor, with the connector's credentials.

    Build the parameters only when the call starts. `secrets` are passed in addition to the credentials.
    Raises `ConnectorUnavailable` if the connector is incomplete or has another kind, or if the repository is
    not below its account.
    """
    if get_task_kind(operation, connector) == DelegateTask.Kind.AWS:
        return build_aws_payload(connector, str(params["region"]), *_build_aws_call(operation, params))
    _require_connector_kind(connector, operation)
    site = parse_site_spec(connector.spec)
    secret = _get_secret(connector, site)
    if operation in OPERATIONS:
        return build_terraform_payload(connector, secret, operation, params, secrets or {})
    login: dict[str, str] = {}
    hosts: dict[str, list[str]] = {}
    if site.authentication == PASSWORD:
        login = {"username": site.username, "password": secret}
    elif site.authentication == SSH_KEY:
        login = {"ssh_key": secret}
        hosts = {"host_keys": [str(key) for key in get_known_server(connector).keys]}
    filled = {**_build_params(site, operation, params), **login, **hosts}
    return TaskPayload(filled, mask=tuple(line for line in (secret, *_split_lines(secret)) if line))


def _build_aws_call(operation: str, params: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return the AWS call of a site call: S3 objects, ECR images (R180)."""
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


def trim_result(operation: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored part of a result; ECR returns many more fields for each image and repository."""
    if operation not in _STORED_FIELDS:
        return dict(result)
    member, keys = _STORED_FIELDS[operation]
    listed = result.get(member)
    if not isinstance(listed, list):
        return dict(result)
    mappings = (entry for entry in listed if isinstance(entry, Mapping))
    return {**result, member: [{key: entry[key] for key in keys if key in entry} for entry in mappings]}


def build_site_error(record: Mapping[str, Any], service: str, operation: str) -> AwsError:
    """Return the exception for an executor's error."""
    texts = {key: str(value) for key, value in record.items()}
    if texts.get("kind") not in (None, "TaskError"):
        return parse_error_record(texts)
    return Undelivered(texts.get("code", ""), texts.get("message", "no reason given"), service, operation)


def _build_params(site: SiteSpec, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
    repository = str(params.get("repository") or "")
    if operation == LIST_REPOSITORIES:
        return {"catalog": True, "url": site.url}
    if _KINDS[operation] == DelegateTask.Kind.DOCKER_REGISTRY:
        return {**{key: params[key] for key in ("repository", "tag") if key in params}, "url": site.url}
    if repository and (problem := describe_repository_problem(repository.strip("/"))):
        # It may come from the inputs of a run.
        raise ConnectorUnavailable(f"{repository} {problem}.")
    call_params = {key: value for key, value in params.items() if key not in ("repository", "connector")}
    refs = {"refs": True} if operation == LIST_REFS else {}
    return {**call_params, **refs, "url": site.build_url(repository)}


def _require_connector_kind(connector: Connector, operation: str) -> None:
    if connector.kind != _CONNECTOR_KINDS[_KINDS[operation]]:
        raise ConnectorUnavailable(
            f"The connector {connector} is for {connector.get_kind_display()}: choose another one."
        )


def _get_secret(connector: Connector, site: SiteSpec) -> str:
    if not site.needs_secret:
        return ""
    if connector.secret is None:
        raise ConnectorUnavailable(f"The connector {connector} has no secret: edit it and select one.")
    try:
        return read_secret_value(connector.secret, reader=f"connector {connector}")
    except SecretPending as pending:
        raise ConnectorPending(str(pending)) from pending
    except SecretUnreadable as wrong:
        raise ConnectorUnavailable(str(wrong)) from wrong


def _split_lines(secret: str) -> list[str]:
    """Return the long lines of a multi-line secret, because a program may print one of them."""
    lines = [line.strip() for line in secret.splitlines()]
    return [line for line in lines if len(line) > 8] if len(lines) > 1 else []
