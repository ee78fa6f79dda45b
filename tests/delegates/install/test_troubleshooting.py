"""What to look at when a delegate does not come: the likeliest first, with commands for that delegate."""

import shlex
from typing import Any

import pytest

from delegates.install import SpecProxy, SpecRequest, list_disconnect_causes, list_likely_causes
from delegates.install.specs import SpecNetwork
from tests.delegates.install.spec_variants import MATRIX, SUBNETS, build_request, format_name


def list_titles(request: SpecRequest, **evidence: Any) -> list[str]:
    return [cause.title for cause in list_likely_causes(request, **evidence)]


def test_on_fargate_starting_comes_first_then_credentials_then_the_network() -> None:
    assert list_titles(build_request()) == [
        "No task has started",
        "Image cannot be pulled",
        "Execution role not valid",
        "Subnets have no route to the internet",
        "Log group missing",
        "Wrong account ID, token or URL",
        "No outbound access",
        "CloudWatch Logs limits exceeded",
        "Certificate not trusted",
    ]


def test_on_ec2_there_may_be_no_instance_with_room() -> None:
    cause_titles = list_titles(build_request("v3", "EC2"))
    assert "No container instance with enough resources" in cause_titles
    assert "Subnets have no route to the internet" not in cause_titles
    assert "Execution role not valid" not in cause_titles


def test_a_machine_is_asked_about_its_container() -> None:
    causes = list_likely_causes(build_request(kind="DOCKER"))
    assert causes[0].title == "Container not running"
    assert not [
        command for cause in causes for command in cause.commands if command.command.startswith("aws")
    ]


def test_what_slipway_itself_saw_ends_the_search() -> None:
    causes = list_likely_causes(
        build_request(), refusals=["The token was revoked.", "The token was revoked."]
    )
    assert [cause.title for cause in causes] == [
        "Registration refused",
        "Wrong account ID, token or URL",
    ]
    assert causes[0].text.count("The token was revoked.") == 1


def test_an_address_that_only_this_machine_has_is_the_first_suspect() -> None:
    causes = list_likely_causes(build_request(manager_url="http://127.0.0.1:8000"))
    assert "http://127.0.0.1:8000" in causes[0].text
    assert "PUBLIC_URL" in causes[0].text


def test_the_routes_to_look_for_go_with_the_public_address() -> None:
    for is_public, gateway in ((True, "igw-"), (False, "nat-")):
        request = build_request(network=SpecNetwork(SUBNETS, ("sg-1",), is_public))
        (cause,) = [candidate for candidate in list_likely_causes(request) if "Subnets" in candidate.title]
        assert gateway in cause.text
        assert ",".join(SUBNETS) in cause.commands[0].command


def test_a_stop_reason_names_the_image_and_clears_the_subnets() -> None:
    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/slipway-delegate:9"
    reason = f"CannotPullContainerError: failed to resolve ref {image}: {image}: not found"
    causes = list_likely_causes(build_request(), stop_reasons=[reason])
    assert causes[0].title == "Image cannot be pulled"
    assert f"cannot be pulled: {image}." in causes[0].text
    assert reason in causes[0].text
    assert "Subnets have no route to the internet" not in [cause.title for cause in causes]


def test_a_pull_that_timed_out_is_about_the_network() -> None:
    reason = "CannotPullContainerError: dial tcp 52.1.2.3:443: i/o timeout"
    assert list_titles(build_request(), stop_reasons=[reason])[:2] == [
        "Pulling the image failed",
        "Subnets have no route to the internet",
    ]


ROLE = "arn:aws:sts::123456789012:assumed-role/stack-role-1/task"
SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:TokenSecret-1"
UNREADABLE = (
    f"ResourceInitializationError: unable to pull secrets or registry auth: failed to fetch secret {SECRET}: "
    f"AccessDeniedException: User: {ROLE} is not authorized to perform: secretsmanager:GetSecretValue"
)
UNSIGNED = (
    "ResourceInitializationError: unable to pull secrets or registry auth: AccessDeniedException: "
    f"User: {ROLE} is not authorized to perform: ecr:GetAuthorizationToken on resource: *"
)


@pytest.mark.parametrize(
    ("reason", "title", "word"),
    [
        (UNREADABLE, "Secret cannot be read", f"--secret-id {SECRET}"),
        (UNSIGNED, "Execution role may not pull the image", "attach-role-policy --role-name stack-role-1"),
        (
            "ECS was unable to assume the role 'arn:aws:iam::123456789012:role/path/made' that was provided",
            "Role cannot be assumed",
            "get-role --role-name made",
        ),
        ("The subnet ID 'subnet-1' does not exist", "Subnet does not exist", "describe-route-tables"),
        ("InvalidGroup.NotFound: sg-1", "Security group does not exist", "describe-security-groups"),
        (
            "ResourceInitializationError: failed to validate logger args",
            "Log group missing",
            "create-log-group",
        ),
        ("moon", "The last task stopped", "logs tail"),
    ],
)
def test_each_stop_reason_has_its_cause_with_commands(reason: str, title: str, word: str) -> None:
    cause = list_likely_causes(build_request(), stop_reasons=[reason, reason])[0]
    assert cause.title == title
    assert reason.rstrip(".") in cause.text
    assert any(word in command.command for command in cause.commands)


def test_a_task_that_runs_clears_what_is_about_starting() -> None:
    assert list_titles(build_request(), is_running=True)[0] == "Wrong account ID, token or URL"


def test_a_proxy_is_a_suspect_of_its_own() -> None:
    assert "Blocked by the proxy" in list_titles(build_request(proxy=SpecProxy("proxy.example.com")))


@pytest.mark.parametrize(
    "request_",
    [*MATRIX, build_request(kind="DOCKER")],
    ids=lambda request: format_name(request) + request.kind,
)
def test_each_cause_is_told_in_sentences_with_commands_a_shell_takes(request_: SpecRequest) -> None:
    for cause in [*list_likely_causes(request_), *list_disconnect_causes(request_)]:
        assert cause.text.endswith(".")
        for command in cause.commands:
            assert shlex.split(command.command)[0] in ("aws", "docker")
            assert "\n" not in command.command


def test_frequent_disconnects_come_from_the_size_or_the_network() -> None:
    memory, network = list_disconnect_causes(build_request())
    assert memory.title == "Too little memory or CPU"
    assert "WebSocket" in network.text
