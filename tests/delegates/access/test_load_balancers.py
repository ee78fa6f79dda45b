"""Load balancers, listeners and rules to choose from, as a connector sees them through a delegate."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from aws.apis.elb import describe_conditions
from connectors.models import Connector
from connectors.operations import create_connector
from delegates.models import LookupRequest
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.fixtures.fake_delegates import hand

pytestmark = pytest.mark.django_db(transaction=True)

Browse = Callable[[User], Client]
Make = Callable[..., Connector]


@pytest.fixture
def make(
    project: Scope,
    admin: User,
    sandbox: SandboxProcess,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Make:
    """Make a connector to the sandbox that goes through a delegate."""
    settings.ALLOW_AWS_ENDPOINTS = True
    sandbox.seed()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-the-delegate")

    def create_aws_connector(**spec: Any) -> Connector:
        connector_spec = {"credentials": "Delegate", "endpoint_url": sandbox.url, **spec}
        return create_connector(actor=admin, scope=project, identifier="aws", name="AWS", spec=connector_spec)

    return create_aws_connector


def _build_address(connector: Connector, resource: str, **query: str) -> str:
    params = "&".join(f"{name}={value}" for name, value in {"region": "us-east-1", **query}.items())
    return f"/api/v1/connectors/{connector.pk}/{resource}?{params}"


def test_a_delegate_lists_what_a_step_can_be_told(make: Make, admin: User, browse: Browse) -> None:
    connector = make(connect_through="Delegate", delegate_selectors=["prod"])
    prod, client = hand("prod-eu", tags=("prod",)), browse(admin)

    def list_resources(resource: str, **query: str) -> list[dict[str, Any]]:
        address = _build_address(connector, resource, **query)
        assert client.get(address).status_code == 202
        prod.serve()
        results: list[dict[str, Any]] = client.get(address).json()["results"]
        return results

    (balancer,) = list_resources("load-balancers")
    listeners = list_resources("listeners", load_balancer=balancer["arn"])
    assert [row["port"] for row in listeners] == sorted(row["port"] for row in listeners)
    first, second = (list_resources("rules", listener=listener["arn"]) for listener in listeners[:2])
    assert first[-1]["is_default"]
    assert first[-1]["conditions"] == ["default, if no other rule matches"]
    assert first[0]["targets"][0]["name"]
    assert first[0]["targets"] != second[0]["targets"]
    # Each question about another listener is a question of its own.
    assert LookupRequest.objects.count() == 4


def test_what_is_asked_about_must_be_an_arn_of_its_kind(make: Make, admin: User, browse: Browse) -> None:
    connector = make(connect_through="Delegate", delegate_selectors=["prod"])
    client = browse(admin)
    for resource, query in (
        ("listeners", {}),
        ("listeners", {"load_balancer": "demo"}),
        ("rules", {"listener": "arn:aws:elasticloadbalancing:us-east-1:123456789012:loadbalancer/app/a/b"}),
        ("rules", {"listener": "arn:aws:iam::123456789012:role/x"}),
    ):
        assert client.get(_build_address(connector, resource, **query)).status_code == 400
    assert not LookupRequest.objects.exists()


def test_conditions_are_told_in_words() -> None:
    conditions = [
        {"Field": "path-pattern", "Values": ["/api/*"], "PathPatternConfig": {"Values": ["/api/*", "/v1/*"]}},
        {"Field": "host-header", "Values": ["a.example.com"]},
        {"Field": "http-header", "HttpHeaderConfig": {"HttpHeaderName": "X-Canary", "Values": ["yes"]}},
        {"Field": "query-string", "QueryStringConfig": {"Values": [{"Key": "v", "Value": "2"}]}},
        {"Field": "source-ip", "SourceIpConfig": {"Values": ["10.0.0.0/8"]}},
        {"Field": "news"},
    ]
    assert describe_conditions(conditions) == [
        "path is /api/* or /v1/*",
        "host is a.example.com",
        "header X-Canary is yes",
        "query has v=2",
        "comes from 10.0.0.0/8",
        "news that is not known here",
    ]
