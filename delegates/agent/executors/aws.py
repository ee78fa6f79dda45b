"""Makes one AWS call: with the delegate's own credentials, an access key, or a role assumed with either."""

from collections.abc import Mapping
from typing import Any

from aws.caller import BotoCaller
from aws.credentials import AccessKey, AssumedRole, Credentials, DefaultChain
from aws.deadline import TooLate, sent_before
from aws.errors import AwsError, NotSent, Unauthenticated
from aws.objects import fetch_objects
from delegates.agent.executors.answers import Answer, Surroundings, failed, not_sent, succeeded
from delegates.agent.executors.operations import is_allowed, refusal
from delegates.agent.work import Held
from guards.places import find_place, read_url

# No operation of AWS: objects of S3 are listed and read together.
FETCH_OBJECTS = ("s3", "FetchObjects")
_READS_OBJECTS = ("GetObject", "ListObjectsV2")


def run_aws(held: Held, around: Surroundings) -> Answer:
    """Make the call of a task. Raises `KeyError` where a parameter is missing, and as `find_place` does."""
    params = held.task.params
    service, operation = str(params["service"]), str(params["operation"])
    asked = _READS_OBJECTS if (service, operation) == FETCH_OBJECTS else (operation,)
    for one in asked:
        if not is_allowed(service, one, around.allowed_operations):
            return failed("OperationNotAllowed", refusal(service, one))
    if endpoint := str(params.get("endpoint_url") or ""):
        target = read_url(endpoint)
        find_place(target.host, target.port, around.reach)
    credentials = read_credentials(params.get("credentials") or {"kind": "own"})
    caller = BotoCaller(
        credentials=credentials,
        region=str(params["region"]),
        endpoint_url=endpoint or None,
        reach=around.reach,
    )
    try:
        if (service, operation) == FETCH_OBJECTS:
            asked = params["params"]
            found = fetch_objects(caller, str(asked["bucket"]), [str(path) for path in asked["paths"]])
            return succeeded({"files": found.files, "versions": found.versions})
        with sent_before(held.task.send_before):
            return succeeded(caller.call(service, operation, params.get("params") or {}))
    except TooLate as late:
        return not_sent(late.code, late.message)
    except AwsError as error:
        return aws_failure(error, credentials)


def aws_failure(error: AwsError, credentials: Credentials) -> Answer:
    """The answer for an error; what never reached AWS, or had no credentials for it, is a lack of ours.

    A key that came with the task is as wrong at every other delegate.
    """
    base = credentials.base if isinstance(credentials, AssumedRole) else credentials
    is_ours = isinstance(error, Unauthenticated) and isinstance(base, DefaultChain)
    capability = isinstance(error, NotSent) or is_ours
    return Answer(Answer.FAILED, error=error.to_record() | {"capability": capability})


def read_credentials(given: Mapping[str, Any]) -> Credentials:
    """The credentials of a task. Raises `KeyError`, or `ValueError` for an unknown kind."""
    if given["kind"] == "assume_role":
        return AssumedRole(
            role_arn=str(given["role_arn"]),
            base=_base(given.get("base") or {"kind": "own"}),
            external_id=str(given.get("external_id") or ""),
        )
    return _base(given)


def _base(given: Mapping[str, Any]) -> AccessKey | DefaultChain:
    if given["kind"] == "own":
        return DefaultChain()
    if given["kind"] != "access_key":
        raise ValueError(f"credentials of kind {given['kind']!r}")
    return AccessKey(
        str(given["access_key_id"]), str(given["secret_access_key"]), str(given.get("session_token") or "")
    )
