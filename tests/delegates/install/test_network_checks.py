"""With a connector, AWS itself is asked whether the network of a delegate leads anywhere."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from connectors.models import Connector
from connectors.operations import create_connector, create_secret
from delegates.install import SpecFinding, SpecNetwork, write_spec
from delegates.operations.specs import check_spec
from rbac.models import Scope, User
from rbac.policy import Forbidden
from sandbox.process import SandboxProcess
from tests.delegates.install.spec_variants import build_request
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
VPC = "networkConfiguration.awsvpcConfiguration"


@pytest.fixture
def connector(project: Scope, admin: User, sandbox: SandboxProcess, settings: Settings) -> Connector:
    settings.ALLOW_AWS_ENDPOINTS = True
    secret = create_secret(
        actor=admin, scope=project, identifier="key", name="Key", value=planted("of-the-sandbox")
    )
    spec = {"credentials": "AccessKey", "access_key_id": "AKIASANDBOX", "endpoint_url": sandbox.url}
    return create_connector(
        actor=admin, scope=project, identifier="aws", name="AWS", spec=spec, secret=secret
    )


@pytest.fixture
def documents(sandbox: SandboxProcess) -> dict[str, Any]:
    """A spec for the sandbox's own network, which is public."""
    seed = sandbox.seed()
    network = SpecNetwork(tuple(seed["subnets"]), (seed["security_group"],))
    spec = write_spec(replace(build_request(), network=network))
    return deepcopy({"task_definition": dict(spec.task_definition), "service": dict(spec.service)})


def get_vpc(documents: dict[str, Any]) -> dict[str, Any]:
    configuration: dict[str, Any] = documents["service"]["networkConfiguration"]["awsvpcConfiguration"]
    return configuration


def list_findings(actor: User, connector: Connector, documents: dict[str, Any]) -> list[SpecFinding]:
    return check_spec(actor=actor, connector=connector, region="us-east-1", **documents)


def test_a_network_that_leads_out_is_right(
    admin: User, connector: Connector, documents: dict[str, Any]
) -> None:
    assert list_findings(admin, connector, documents) == []


def test_public_subnets_without_public_addresses_are_found(
    admin: User, connector: Connector, documents: dict[str, Any]
) -> None:
    get_vpc(documents)["assignPublicIp"] = "DISABLED"
    assert [finding.place for finding in list_findings(admin, connector, documents)] == [
        f"{VPC}.subnets[0]",
        f"{VPC}.subnets[1]",
    ]


def test_a_subnet_that_aws_does_not_have_is_found(
    admin: User, connector: Connector, documents: dict[str, Any]
) -> None:
    get_vpc(documents)["subnets"][0] = "subnet-0000000000000000"
    (finding,) = list_findings(admin, connector, documents)
    assert finding.place == f"{VPC}.subnets"
    assert "does not exist" in finding.message


def test_aws_is_not_asked_for_who_may_not_use_the_connector(
    viewer: User, connector: Connector, documents: dict[str, Any], sandbox: SandboxProcess
) -> None:
    before = len(sandbox.journal())
    with pytest.raises(Forbidden):
        list_findings(viewer, connector, documents)
    assert len(sandbox.journal()) == before


def test_the_route_asks_too(admin: User, connector: Connector, documents: dict[str, Any]) -> None:
    get_vpc(documents)["assignPublicIp"] = "DISABLED"
    client = APIClient()
    client.force_authenticate(admin)
    payload = {**documents, "connector_id": connector.pk, "region": "us-east-1"}
    response_body = client.post("/api/v1/delegates/task-spec/check", payload, format="json").json()
    assert (response_body["ok"], len(response_body["findings"])) == (False, 2)
    invalid_region = client.post(
        "/api/v1/delegates/task-spec/check", {**payload, "region": "mars"}, format="json"
    )
    assert invalid_region.status_code == 400
