"""AWS executor: allowed operations (R145, T12), credentials, one call."""

from collections.abc import Mapping, Set
from typing import Any

from aws.apis.s3 import fetch_objects
from aws.caller import BotoCaller
from aws.clients import (
    AccessKey,
    AssumedRole,
    Credentials,
    DefaultChain,
    SendDeadlinePassed,
    WebIdentity,
    send_deadline,
)
from aws.errors import AwsError, NotSent, Unauthenticated
from aws.operations import get_iam_action
from aws.policies import CALLED_ACTIONS
from delegates.agent.executors.task_results import (
    ExecutorContext,
    TaskResult,
    build_failure,
    build_not_sent,
    build_success,
)
from delegates.agent.tasks import HeldTask
from guards.safe_http import RequestPolicy
from guards.urls import parse_url, resolve_host

# R145, T12; AWS answers GetCallerIdentity to everybody.
ALLOWED_OPERATIONS = CALLED_ACTIONS | {"sts:GetCallerIdentity"}


def is_allowed_operation(service: str, operation: str, also: Set[str]) -> bool:
    """Return whether this delegate may send a call.

    `also` are additional operations with the service name of boto3 or IAM.
    """
    return bool({f"{service}:{operation}", get_iam_action(service, operation)} & (ALLOWED_OPERATIONS | also))


def describe_refused_operation(service: str, operation: str) -> str:
    """Return the reason for a call that was not sent, and the owner of the setting that forbids it."""
    return (
        f"{service}:{operation} is not allowed on this delegate. Its operator can allow it: "
        f"SLIPWAY_DELEGATE_ALLOW_OPERATIONS={service}:{operation}"
    )


# No operation of AWS: objects of S3 are listed and read together.
FETCH_OBJECTS = ("s3", "FetchObjects")
_READS_OBJECTS = ("GetObject", "ListObjectsV2")


def run_aws(held_task: HeldTask, around: ExecutorContext) -> TaskResult:
    """Send the AWS call of a task.

    Raises `KeyError` for a missing parameter, and the errors of `resolve_host`.
    """
    params = held_task.task.params
    service, operation = str(params["service"]), str(params["operation"])
    operations = _READS_OBJECTS if (service, operation) == FETCH_OBJECTS else (operation,)
    for needed in operations:
        if not is_allowed_operation(service, needed, around.allowed_operations):
            return build_failure("OperationNotAllowed", describe_refused_operation(service, needed))
    if endpoint := str(params.get("endpoint_url") or ""):
        _require_permitted_endpoint(endpoint, around.way)
    credentials = parse_credentials(params.get("credentials") or {"kind": "own"})
    if refusal := _refuse_token_file(credentials, around.token_files):
        return refusal
    caller = BotoCaller(
        credentials=credentials,
        region=str(params["region"]),
        endpoint_url=endpoint or None,
        address_policy=around.reach,
    )
    try:
        if (service, operation) == FETCH_OBJECTS:
            request = params["params"]
            objects = fetch_objects(caller, str(request["bucket"]), [str(path) for path in request["paths"]])
            return build_success({"files": objects.files, "versions": objects.versions})
        with send_deadline(held_task.task.send_before):
            return build_success(caller.call(service, operation, params.get("params") or {}))
    except SendDeadlinePassed as late:
        return build_not_sent(late.code, late.message)
    except AwsError as error:
        return build_aws_failure(error, credentials)


def _require_permitted_endpoint(url: str, policy: RequestPolicy) -> None:
    target = parse_url(url)
    if policy.is_proxied(target):
        # Only the proxy may be able to resolve the name.
        policy.address_policy.require_literal_address(target.host)
    else:
        resolve_host(target.host, target.port, policy.address_policy)


def build_aws_failure(error: AwsError, credentials: Credentials) -> TaskResult:
    """Return the failure for an error; an unsent call or missing credentials count as a missing capability.

    A wrong key in the task's parameters is wrong at every other delegate too.
    """
    is_ours = isinstance(error, Unauthenticated) and isinstance(_find_base(credentials), DefaultChain)
    capability = isinstance(error, NotSent) or is_ours
    return TaskResult(TaskResult.FAILED, error=error.to_record() | {"capability": capability})


def _refuse_token_file(credentials: Credentials, token_files: frozenset[str] | None) -> TaskResult | None:
    """Return the refusal of a token file that the operator of this delegate has not listed.

    Otherwise whoever edits connectors could send any token of the delegate to AWS.
    """
    base = _find_base(credentials)
    if not isinstance(base, WebIdentity) or token_files is None or base.token_file in token_files:
        return None
    message = (
        f"this delegate does not read the token file {base.token_file}. Its operator can allow it: "
        f"SLIPWAY_DELEGATE_TOKEN_FILES={base.token_file}"
    )
    return build_failure("TokenFileNotAllowed", message)


def _find_base(credentials: Credentials) -> Credentials:
    """Return the credentials at the beginning of a chain of roles."""
    while isinstance(credentials, AssumedRole):
        credentials = credentials.base
    return credentials


def parse_credentials(data: Mapping[str, Any]) -> Credentials:
    """Return the credentials of a task. Raises `KeyError`, or `ValueError` for an unknown kind."""
    if data["kind"] == "assume_role":
        return AssumedRole(
            role_arn=str(data["role_arn"]),
            base=parse_credentials(data.get("base") or {"kind": "own"}),
            external_id=str(data.get("external_id") or ""),
            session_name=str(data.get("session_name") or "slipway"),
            tags=tuple((str(key), str(value)) for key, value in data.get("tags") or ()),
            transitive_tag_keys=tuple(str(key) for key in data.get("transitive_tag_keys") or ()),
        )
    if data["kind"] == "web_identity":
        return WebIdentity(
            str(data["role_arn"]), str(data["token_file"]), str(data.get("session_name") or "slipway")
        )
    if data["kind"] == "own":
        return DefaultChain()
    if data["kind"] != "access_key":
        raise ValueError(f"credentials of kind {data['kind']!r}")
    return AccessKey(
        str(data["access_key_id"]), str(data["secret_access_key"]), str(data.get("session_token") or "")
    )
