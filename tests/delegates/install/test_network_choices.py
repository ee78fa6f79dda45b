"""Fields of the wizard that AWS fills with choices."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from connectors.models import Connector
from connectors.operations import create_connector, create_secret
from delegates.models import Delegate, LookupRequest
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.delegates.install.test_wizard import build_form
from tests.secret_watch.marker import planted
from web.clock import get_database_time

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]


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
def remote(project: Scope, admin: User, settings: Settings) -> Connector:
    settings.ALLOW_AWS_ENDPOINTS = True
    spec = {
        "credentials": "Delegate",
        "connect_through": "Delegate",
        "delegate_selectors": ["prod"],
        "endpoint_url": "http://127.0.0.1:9999",
    }
    return create_connector(actor=admin, scope=project, identifier="remote", name="Remote", spec=spec)


def read_choices(client: Client, name: str, connector: Connector, **values: Any) -> str:
    query = {"connector": connector.pk, "region": "us-east-1", **values}
    return str(client.get(f"/delegates/new/choices/{name}/", query).content.decode())


def test_networks_clusters_and_roles_are_chosen_from_lists(
    admin: User, browse: Browse, connector: Connector, sandbox: SandboxProcess
) -> None:
    client, seed = browse(admin), sandbox.seed()
    default, vpc = re.findall(r'<option value="(vpc-\w+)"', read_choices(client, "vpc", connector))
    assert seed["subnets"][0] not in read_choices(client, "subnets", connector, vpc=default)
    subnets = read_choices(
        client, "subnets", connector, vpc=vpc, listed_subnets=seed["subnets"][0], subnets="subnet-typed"
    )
    assert f'value="{seed["subnets"][0]}" checked' in subnets
    assert f'value="{seed["subnets"][1]}"> ' in subnets
    assert 'name="subnets" value="subnet-typed"' in subnets
    assert seed["security_group"] in read_choices(client, "security_groups", connector, vpc=vpc)
    assert f'<option value="{seed["cluster"]}">' in read_choices(client, "cluster", connector)
    assert "visible to AWS: 1" in read_choices(client, "task_role", connector)


def test_choices_that_cannot_be_listed_name_the_permission_and_leave_a_text_field(
    admin: User, viewer: User, browse: Browse, connector: Connector
) -> None:
    page = read_choices(browse(admin), "vpc", connector, region="evil.example", vpc="vpc-1")
    assert "Choose a region first" in page
    query = {"connector": "9" * 4400, "region": "us-east-1", "vpc": "vpc-1"}
    page = browse(admin).get("/delegates/new/choices/vpc/", query).content.decode()
    assert "Choose a connector that you can use" in page
    assert "ec2:DescribeVpcs" in page
    assert 'name="vpc" value="vpc-1"' in page
    # The connector of somebody else is as good as none.
    assert "Choose a connector that you can use" in read_choices(browse(viewer), "vpc", connector)
    assert "Choose a VPC" in read_choices(browse(admin), "subnets", connector)


def test_choices_of_a_delegate_come_when_it_has_answered(
    admin: User, browse: Browse, remote: Connector
) -> None:
    client = browse(admin)
    assert "Loading VPCs through a delegate" in read_choices(client, "vpc", remote)
    hostile = {"id": "vpc-1", "name": '"><script>', "cidr": "10.0.0.0/16", "is_default": False}
    LookupRequest.objects.update(report={"seen": [hostile]}, finished_at=get_database_time())
    page = read_choices(client, "vpc", remote)
    assert '<option value="vpc-1">' in page
    assert "<script>" not in page


def test_a_network_that_does_not_lead_out_is_found_before_the_delegate_is_created(
    admin: User, browse: Browse, remote: Connector
) -> None:
    client = browse(admin)
    query = {"connector": remote.pk, "region": "us-east-1", "vpc": "vpc-1", "security_groups": "sg-1"}
    chosen = {**query, "listed_subnets": "subnet-1", "subnets": "subnet-2"}
    address = "/delegates/new/network/"
    assert "Checking the network through a delegate" in client.get(address, chosen).content.decode()
    subnet = {"id": "subnet-1", "name": "", "zone": "a", "cidr": "", "egress_route": "internet"}
    group = {"id": "sg-1", "name": "", "allows_https": True}
    for rows in ([subnet], [group]):
        client.get(address, chosen)
        LookupRequest.objects.filter(finished_at=None).update(
            report={"seen": rows}, finished_at=get_database_time()
        )
    page = client.get(address, chosen).content.decode()
    assert "subnet-1 is public" in page
    assert "subnet-2 is not in vpc-1" in page
    right = {**query, "listed_subnets": "subnet-1", "assign_public_ip": "on"}
    assert "allow outbound HTTPS" in client.get(address, right).content.decode()
    assert client.get(address, {**query, "connector": ""}).content.decode().strip() == ""


def test_ticked_and_typed_subnets_are_those_of_the_delegate(
    admin: User, project: Scope, browse: Browse
) -> None:
    form = build_form(project, listed_subnets=["subnet-1", "subnet-2"], subnets="subnet-2, subnet-3")
    browse(admin).post("/delegates/new/", form)
    assert Delegate.objects.get(name="eu").spec["subnets"] == ["subnet-1", "subnet-2", "subnet-3"]


def test_a_new_delegate_gets_what_is_there_once_without_a_choice(
    admin: User, browse: Browse, connector: Connector, sandbox: SandboxProcess
) -> None:
    client, seed = browse(admin), sandbox.seed()
    form = client.get("/delegates/new/").content.decode()
    assert f'<option value="{connector.pk}" selected>' in form
    chosen = {"chooses": "1", "vpc": seed["vpc"]}
    account = read_choices(client, "aws_account_id", connector, **chosen)
    assert f'name="aws_account_id" value="{seed["account"]}"' in account
    assert f'name="cluster" value="{seed["cluster"]}"' in read_choices(client, "cluster", connector, **chosen)
    subnets = read_choices(client, "subnets", connector, **chosen, listed_subnets="subnet-of-another-vpc")
    assert subnets.count(" checked") == 2
    assert "checked" in read_choices(client, "security_groups", connector, **chosen)
    # The setup of a delegate that exists is not filled by itself.
    assert seed["account"] not in read_choices(client, "aws_account_id", connector).split("<datalist")[0]


def test_what_an_earlier_connector_chose_goes_with_it_and_typed_text_stays(
    admin: User, browse: Browse, connector: Connector, sandbox: SandboxProcess
) -> None:
    client, own = browse(admin), sandbox.seed()["account"]
    for default, expected in (("111122223333", own), ("", "111122223333")):
        page = read_choices(
            client,
            "aws_account_id",
            connector,
            chooses="1",
            aws_account_id="111122223333",
            default_aws_account_id=default,
        )
        assert f'name="aws_account_id" value="{expected}"' in page
