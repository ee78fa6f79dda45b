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
    causes = list_likely_causes(build_request(), stop_reason=reason)
    assert causes[0].title == "The last task stopped"
    assert f"cannot be pulled: {image}." in causes[0].text
    assert reason in causes[0].text
    assert "Subnets have no route to the internet" not in [cause.title for cause in causes]


def test_a_pull_that_timed_out_is_about_the_network() -> None:
    reason = "CannotPullContainerError: dial tcp 52.1.2.3:443: i/o timeout"
    assert list_titles(build_request(), stop_reason=reason)[:2] == [
        "The last task stopped",
        "Subnets have no route to the internet",
    ]


def test_an_unknown_stop_reason_leaves_the_guesses() -> None:
    assert list_titles(build_request(), stop_reason="moon") == list_titles(build_request())


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
