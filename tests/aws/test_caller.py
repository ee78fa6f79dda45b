"""How failures on the wire become errors that say whether a write may have happened."""

import json
import os
import socket
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

import aws.caller
from aws import clients
from aws.caller import BotoCaller
from aws.clients import AccessKey, AssumedRole, WebIdentity
from aws.errors import (
    AwsError,
    Denied,
    Invalid,
    NotFound,
    NotSent,
    Throttled,
    Unanswered,
    Unauthenticated,
    parse_error_record,
)
from aws.operations import get_iam_action, is_write
from tests.aws.conftest import Endpoint
from tests.aws.fake_caller import skip_sleep

UPDATE = ("ecs", "UpdateService", {"service": "myapp"})
READ = ("ecs", "DescribeServices", {"services": ["myapp"]})


def failure(caller: BotoCaller, call: tuple[str, str, dict[str, Any]]) -> AwsError:
    with pytest.raises(AwsError) as caught:
        caller.call(*call)
    return caught.value


def test_an_answer_is_plain_json_without_metadata(endpoint: Endpoint, caller: BotoCaller) -> None:
    endpoint.answer(200, json.dumps({"services": [{"serviceName": "myapp", "createdAt": 1700000000.25}]}))
    answer = caller.call(*READ)
    assert answer == {"services": [{"serviceName": "myapp", "createdAt": "2023-11-14T22:13:20.250000+00:00"}]}
    assert json.loads(json.dumps(answer)) == answer


@pytest.mark.parametrize(
    ("code", "message", "status", "kind"),
    [
        ("ThrottlingException", "Rate exceeded", 400, Throttled),
        ("RequestLimitExceeded", "", 503, Throttled),
        ("ConcurrentUpdateException", "You already have a pending update.", 400, Throttled),
        ("AccessDeniedException", "User: x is not authorized to perform: ecs:UpdateService", 400, Denied),
        ("ServiceNotFoundException", "Service not found.", 400, NotFound),
        ("ClientException", "Unable to describe task definition.", 400, NotFound),
        ("ClientException", "No Fargate configuration exists for given values.", 400, Invalid),
        ("InvalidParameterException", "Creation of service was not idempotent.", 400, Invalid),
        ("ConflictException", "The service deployment cannot be rolled back.", 400, Invalid),
        (
            "ExpiredTokenException",
            "The security token included in the request is expired",
            400,
            Unauthenticated,
        ),
        ("ServerException", "Service Unavailable. Please try again later.", 500, Unanswered),
        ("ServiceNotActiveException", "Service was not ACTIVE.", 400, AwsError),
    ],
)
def test_a_refusal_is_told_apart_by_code(
    endpoint: Endpoint, caller: BotoCaller, code: str, message: str, status: int, kind: type[AwsError]
) -> None:
    endpoint.refuse(code, message, status)
    error = failure(caller, UPDATE)
    assert type(error) is kind
    assert (error.code, error.service, error.operation) == (code, "ecs", "UpdateService")
    assert error.may_have_happened == (kind is Unanswered)
    assert len(endpoint.requests) == 1, "a write is sent once whatever comes back"


def test_a_bug_after_the_answer_leaves_a_write_unanswered_and_shows_with_a_read(
    endpoint: Endpoint, caller: BotoCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_value: object) -> None:
        raise ValueError("bug")

    monkeypatch.setattr(aws.caller, "convert_to_json", fail)
    endpoint.answer(200, json.dumps({"service": {}, "services": []}))
    error = failure(caller, UPDATE)
    assert (type(error), error.code, error.message) == (Unanswered, "ValueError", "bug")
    with pytest.raises(ValueError, match="bug"):
        caller.call(*READ)


def test_a_gateway_page_instead_of_an_answer_is_unanswered(endpoint: Endpoint, caller: BotoCaller) -> None:
    endpoint.answer(502, "<html>Bad Gateway</html>", content_type="text/html")
    assert isinstance(failure(caller, UPDATE), Unanswered)


def test_a_refusal_by_something_that_is_not_aws_says_so(endpoint: Endpoint, caller: BotoCaller) -> None:
    endpoint.answer(404, json.dumps({"error": "no such page"}))
    error = failure(caller, READ)
    assert "HTTP 404, and the response is not from AWS" in error.display_message
    assert "no such page" not in error.display_message


def test_an_unreadable_success_is_unanswered(endpoint: Endpoint, caller: BotoCaller) -> None:
    endpoint.answer(200, '{"service": {"serviceNa')
    assert isinstance(failure(caller, UPDATE), Unanswered)


def test_a_connection_cut_after_the_request_is_unanswered(endpoint: Endpoint, caller: BotoCaller) -> None:
    endpoint.cut()
    assert isinstance(failure(caller, UPDATE), Unanswered)
    assert len(endpoint.requests) == 1


def test_a_hanging_answer_is_unanswered(
    endpoint: Endpoint, caller: BotoCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "READ_SECONDS", 0.2)
    endpoint.hang()
    assert isinstance(failure(caller, UPDATE), Unanswered)


def test_a_refused_connection_was_not_sent() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        error = failure(BotoCaller(AccessKey("AKIATEST", "secret"), "us-east-1", url), UPDATE)
    assert isinstance(error, NotSent)
    assert not error.may_have_happened


def test_an_unknown_host_was_not_sent() -> None:
    caller = BotoCaller(
        AccessKey("AKIATEST", "secret"), "us-east-1", "http://nowhere.invalid", sleep=skip_sleep
    )
    assert isinstance(failure(caller, UPDATE), NotSent)


def test_parameters_that_botocore_refuses_never_leave(endpoint: Endpoint, caller: BotoCaller) -> None:
    error = failure(caller, ("ecs", "UpdateService", {"service": 5}))
    assert isinstance(error, Invalid)
    assert "Invalid type for parameter service" in error.message
    assert not endpoint.requests


def test_a_read_is_tried_three_times_with_pauses_between(endpoint: Endpoint) -> None:
    pauses: list[float] = []
    caller = BotoCaller(AccessKey("AKIATEST", "secret"), "us-east-1", endpoint.url, sleep=pauses.append)
    endpoint.refuse("ThrottlingException", "Rate exceeded")
    endpoint.cut()
    endpoint.answer(200, '{"services": []}')
    assert caller.call(*READ) == {"services": []}
    assert len(endpoint.requests) == 3
    assert len(pauses) == 2
    assert all(pause > 0 for pause in pauses)


def test_a_read_gives_up_after_the_third_try(endpoint: Endpoint, caller: BotoCaller) -> None:
    endpoint.refuse("ServerException", "", 500)
    assert isinstance(failure(caller, READ), Unanswered)
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "InvalidParameterException", "ClusterNotFoundException"]
)
def test_a_read_that_cannot_succeed_is_tried_once(endpoint: Endpoint, caller: BotoCaller, code: str) -> None:
    endpoint.refuse(code)
    failure(caller, READ)
    assert len(endpoint.requests) == 1


def test_a_pending_update_is_not_called_too_many_calls() -> None:
    place = ("application-autoscaling", "RegisterScalableTarget")
    error = Throttled("ConcurrentUpdateException", "You already have a pending update.", *place)
    assert str(error) == (
        "AWS refused application-autoscaling RegisterScalableTarget for now: You already have a pending "
        "update (ConcurrentUpdateException)."
    )


def test_denied_names_the_missing_action_and_on_what() -> None:
    error = Denied(
        "AccessDeniedException",
        "User: arn:aws:iam::123456789012:user/ci is not authorized to perform: iam:PassRole on resource: "
        "arn:aws:iam::123456789012:role/web because no identity-based policy allows the iam:PassRole action",
        "ecs",
        "RegisterTaskDefinition",
    )
    assert str(error) == (
        "AWS denied iam:PassRole on arn:aws:iam::123456789012:role/web: "
        "allow this action in the IAM policy of arn:aws:iam::123456789012:user/ci."
    )


def test_denied_without_details_names_the_action_of_the_operation() -> None:
    assert Denied("AccessDenied", "no", "elbv2", "ModifyRule").action == "elasticloadbalancing:ModifyRule"
    assert get_iam_action("ecs", "UpdateService") == "ecs:UpdateService"


@pytest.mark.parametrize(
    "error",
    [
        kind("Code", "a sentence", "ecs", "UpdateService")
        for kind in (AwsError, NotFound, Throttled, Invalid, Unauthenticated, Denied, NotSent, Unanswered)
    ],
)
def test_errors_survive_the_journal(error: AwsError) -> None:
    restored_error = parse_error_record(json.loads(json.dumps(error.to_record())))
    assert type(restored_error) is type(error)
    assert restored_error.to_record() == error.to_record()
    assert str(restored_error) == str(error)


def test_a_record_of_a_kind_unknown_here_is_still_an_aws_error() -> None:
    assert type(parse_error_record({"kind": "Novel", "code": "X", "message": "m"})) is AwsError


def test_assuming_a_role_that_is_denied_names_the_role(endpoint: Endpoint) -> None:
    endpoint.answer(
        403,
        "<ErrorResponse><Error><Code>AccessDenied</Code><Message>User: u is not authorized to perform: "
        "sts:AssumeRole on resource: arn:aws:iam::1:role/r</Message></Error></ErrorResponse>",
        content_type="text/xml",
    )
    role = AssumedRole("arn:aws:iam::1:role/r", AccessKey("AKIATEST", "secret"), external_id="abc")
    error = failure(BotoCaller(role, "us-east-1", endpoint.url), UPDATE)
    assert isinstance(error, Denied)
    assert (error.action, error.resource) == ("sts:AssumeRole", "arn:aws:iam::1:role/r")
    assert "ExternalId=abc" in endpoint.requests[0]["body"]


def test_no_answer_while_assuming_a_role_means_the_write_was_not_sent(endpoint: Endpoint) -> None:
    endpoint.cut()
    role = AssumedRole("arn:aws:iam::1:role/r", AccessKey("AKIATEST", "other"))
    assert isinstance(failure(BotoCaller(role, "us-east-1", endpoint.url), UPDATE), NotSent)


def test_half_an_answer_while_assuming_a_role_means_the_write_was_not_sent(endpoint: Endpoint) -> None:
    endpoint.answer_in_part("<AssumeRoleResponse><AssumeRoleResult><Credentials>", length=400)
    role = AssumedRole("arn:aws:iam::1:role/r", AccessKey("AKIATEST", "third"))
    assert isinstance(failure(BotoCaller(role, "us-east-1", endpoint.url), UPDATE), NotSent)


def test_an_identity_provider_that_is_away_means_the_write_was_not_sent(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    endpoint.answer(
        400,
        "<ErrorResponse><Error><Code>IDPCommunicationError</Code><Message>Couldn't retrieve verification key"
        "</Message></Error></ErrorResponse>",
        content_type="text/xml",
    )
    token = tmp_path / "token"
    token.write_text(f"{encode_part({'alg': 'RS256'})}.{encode_part({'iss': 'https://idp'})}.signature")
    identity = WebIdentity("arn:aws:iam::1:role/r", str(token))
    error = failure(BotoCaller(identity, "us-east-1", endpoint.url), UPDATE)
    assert isinstance(error, NotSent)
    assert error.is_retryable


def encode_part(document: dict[str, str]) -> str:
    return urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


def test_credentials_never_print_their_secrets() -> None:
    key = AccessKey("AKIATEST", "hush-hush", "token-token")
    assert "hush" not in repr(AssumedRole("arn", key, external_id="ext-ext")) + str(key)
    assert "token-token" not in repr(BotoCaller(key, "us-east-1"))
    assert "ext-ext" not in repr(AssumedRole("arn", key, external_id="ext-ext"))


def test_clients_are_shared_per_credentials_region_and_endpoint() -> None:
    key = AccessKey("AKIATEST", "secret")
    client = clients.get_client(key, "us-east-1", None, "ecs")
    assert clients.get_client(AccessKey("AKIATEST", "secret"), "us-east-1", None, "ecs") is client
    assert clients.get_client(key, "eu-west-1", None, "ecs") is not client
    assert clients.get_client(AccessKey("AKIATEST", "rotated"), "us-east-1", None, "ecs") is not client


def test_a_forked_worker_makes_its_own_clients() -> None:
    clients.get_client(AccessKey("AKIATEST", "secret"), "us-east-1", None, "ecs")
    # As if another thread of the parent was making a client at the moment of the fork.
    with clients._lock:
        child = os.fork()
        if child == 0:
            is_clean = clients._lock.acquire(blocking=False) and not clients._clients
            os._exit(0 if is_clean else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("service", "operation", "writes"),
    [
        ("ecs", "UpdateService", True),
        ("ecs", "RunTask", True),
        ("ecs", "DescribeServices", False),
        ("logs", "GetLogEvents", False),
        ("sts", "GetCallerIdentity", False),
        ("elbv2", "ModifyListener", True),
        ("ecs", "SomethingNew", True),
    ],
)
def test_operations_are_writes_unless_known_to_read(service: str, operation: str, writes: bool) -> None:
    assert is_write(service, operation) is writes
