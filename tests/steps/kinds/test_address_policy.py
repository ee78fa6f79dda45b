"""What this Slipway asks for a step or a store leads to no inside: the list, redirects, and rebinding."""

from typing import Any

import pytest
from pytest_django import Settings

from aws.apis.s3 import fetch_objects
from aws.caller import BotoCaller
from aws.clients import AccessKey
from aws.errors import AwsError
from delegates.access.site_calls import build_secret_payload, run_locally
from deployments.models import StepExecution
from guards.address_policy import PUBLIC_ONLY, AddressPolicy, parse_networks
from tests.delegates.agent.fake_servers import start_http_server
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.guards.fake_resolver import Rebinding
from tests.guards.test_address_policy import INSIDE, MALFORMED, listening, was_reached
from tests.steps.kinds.conftest import Site

REFUSED = ("AddressRefused", "NameNotResolved")
NO_ADDRESS = "BadParameters"
REST: dict[str, dict[str, Any]] = {
    "http": {"method": "POST", "body": "x"},
    "docker_registry": {"repository": "library/nginx", "operation": "tags"},
    "git": {"ref": "main", "paths": ["a.yaml"]},
}


def _code(kind: str, url: str) -> str:
    """How work for an address of this Slipway ends."""
    answer = run_locally(kind, build_secret_payload({"url": url, **REST[kind]}, {}), seconds=5.0)
    assert answer.status == "FAILED", (url, answer)
    return str((answer.error or {})["code"])


@pytest.mark.parametrize("kind", REST)
def test_no_work_that_is_done_here_reaches_the_inside(kind: str, settings: Settings) -> None:
    settings.OUTGOING_REACH = PUBLIC_ONLY
    with listening() as (port, server):
        for url in (template.format(port=port) for template in INSIDE):
            is_none = kind == "git" and "user:pass" in url
            assert _code(kind, url) in ((NO_ADDRESS,) if is_none else REFUSED), url
            assert not was_reached(server), url
        for url in MALFORMED:
            assert _code(kind, url) in (*REFUSED, NO_ADDRESS), url


def test_no_objects_are_fetched_from_an_endpoint_inside() -> None:
    with listening() as (port, server):
        for url in (template.format(port=port) for template in INSIDE):
            caller = BotoCaller(AccessKey("AKIAIOSFODNN7EXAMPLE", "x" * 40), "us-east-1", url, PUBLIC_ONLY)
            with pytest.raises((AwsError, ValueError)):
                fetch_objects(caller, "bucket", ["a.yaml"])
            assert not was_reached(server), url


def test_a_name_that_points_elsewhere_the_second_time_is_refused_then(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OUTGOING_REACH = AddressPolicy(allowed_networks=parse_networks(["127.0.0.1/32"]))
    with start_http_server(lambda _: (200, {}, b"here")) as url:
        Rebinding(monkeypatch, "astray.example", "127.0.0.1", "169.254.169.254")
        address = f"http://astray.example:{url.rpartition(':')[2]}/"
        assert (
            run_locally("http", build_secret_payload({"url": address}, {}), seconds=5.0).status == "SUCCEEDED"
        )
        assert _code("http", address) == "AddressRefused"


@pytest.mark.django_db(transaction=True)
def test_an_answer_cannot_send_the_next_request_inside(
    write: Write, drive: Drive, site: Site, settings: Settings
) -> None:
    settings.OUTGOING_REACH = AddressPolicy(
        allowed_networks=parse_networks(["127.0.0.1/32"]), advice="name its network"
    )
    site.body = '{"next": "http://169.254.169.254/latest/meta-data/"}'
    outputs = "outputVariables: [{name: next, value: <+json.next>}]"
    first = f"- step: {{identifier: ask, type: Http, spec: {{url: '{site.url}', {outputs}}}}}\n"
    then = "- step: {identifier: then, type: Http, spec: {url: <+steps.ask.output.next>}}\n"
    execution = write(pipeline_text(stage_text(first + then))).run()
    assert execution.status == "FAILED"
    assert execution.failure is not None
    assert (execution.failure["step"], execution.failure["code"]) == ("then", "ADDRESS_REFUSED")
    assert "metadata" in execution.failure["message"]
    assert StepExecution.objects.get(stage__execution=execution, identifier="then").outputs == {}
