"""Connector tests and lists of clusters through a delegate: tasks that hold nothing up."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from connectors.models import Connector
from connectors.operations import create_connector
from delegates.access.aws_access import ConnectorUnavailable, list_clusters
from delegates.access.lookup_requests import (
    LookupQuery,
    create_lookup_request,
    find_recent_request,
    get_or_create_lookup_request,
    read_shared_options,
)
from delegates.models import DelegateTask, LookupRequest
from delegates.task_queue import route_waiting_tasks
from rbac.models import AuditEntry, Scope, User
from rbac.policy import Forbidden
from sandbox.process import SandboxProcess
from tests.fixtures.fake_delegates import hand
from web.clock import get_database_time

pytestmark = pytest.mark.django_db(transaction=True)

Browse = Callable[[User], Client]


@pytest.fixture
def connector(
    project: Scope,
    admin: User,
    sandbox: SandboxProcess,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Connector:
    settings.ALLOW_AWS_ENDPOINTS = True
    sandbox.seed()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-the-delegate")
    spec = {
        "credentials": "Delegate",
        "connect_through": "Delegate",
        "delegate_selectors": ["prod"],
        "endpoint_url": sandbox.url,
    }
    return create_connector(actor=admin, scope=project, identifier="aws", name="AWS", spec=spec)


def test_a_test_is_made_by_a_delegate_and_names_it(connector: Connector, admin: User) -> None:
    prod = hand("prod-eu", tags=("prod",))
    lookup = create_lookup_request(actor=admin, connector=connector, kind=LookupRequest.Kind.TEST)
    assert prod.serve() == 2
    connector.refresh_from_db()
    assert connector.last_test_ok
    assert connector.last_test_report["account_id"] == "123456789012"
    assert "1 ECS cluster in us-east-1." in connector.last_test_message
    assert connector.last_test_report["delegate"] == "prod-eu on ip-10-0-1-7"
    lookup.refresh_from_db()
    assert lookup.finished_at is not None
    assert AuditEntry.objects.get(action="connector.test").after["ok"]


def test_a_delegate_that_cannot_reach_aws_leaves_the_test_to_another_one(
    connector: Connector, admin: User
) -> None:
    far = hand("far", tags=("prod",))
    create_lookup_request(actor=admin, connector=connector, kind=LookupRequest.Kind.TEST)
    near = hand("near", tags=("prod",), hostname="ip-10-0-1-8")
    far.refuse("no connection to sts")
    near.serve()
    connector.refresh_from_db()
    assert connector.last_test_ok
    assert connector.last_test_report["delegate"] == "near on ip-10-0-1-8"


def test_tags_that_nobody_has_are_the_answer(connector: Connector, admin: User) -> None:
    create_lookup_request(actor=admin, connector=connector, kind=LookupRequest.Kind.TEST)
    connector.refresh_from_db()
    assert connector.last_test_ok is False
    assert "No registered delegate" in connector.last_test_message
    assert "Start an eligible delegate" in connector.last_test_report["next_step"]


def test_an_error_of_aws_is_told_as_from_here(
    connector: Connector, admin: User, sandbox: SandboxProcess
) -> None:
    prod = hand("prod-eu", tags=("prod",))
    sandbox.fault("denied", service="ecs", operation="ListClusters", count=1)
    create_lookup_request(actor=admin, connector=connector, kind=LookupRequest.Kind.TEST)
    prod.serve()
    connector.refresh_from_db()
    assert "AWS denied ecs:ListClusters" in connector.last_test_message


def test_the_api_answers_at_once_and_tells_later(connector: Connector, admin: User, browse: Browse) -> None:
    prod, client = hand("prod-eu", tags=("prod",)), browse(admin)
    response = client.post(f"/api/v1/connectors/{connector.pk}/test", {}, content_type="application/json")
    assert response.status_code == 202
    address = f"/api/v1/connectors/{connector.pk}/tests/{response.json()['id']}"
    pending_test: dict[str, Any] = client.get(address).json()
    assert (pending_test["status"], pending_test["result"]) == ("RUNNING", None)
    prod.serve()
    finished_test = client.get(address).json()
    assert (finished_test["status"], finished_test["delegate"]) == ("DONE", "prod-eu on ip-10-0-1-7")
    assert finished_test["result"]["ok"]


def test_clusters_are_there_when_asked_again(connector: Connector, admin: User, browse: Browse) -> None:
    prod, client = hand("prod-eu", tags=("prod",)), browse(admin)
    address = f"/api/v1/connectors/{connector.pk}/clusters?region=us-east-1"
    assert client.get(address).status_code == 202
    prod.serve()
    assert [row["name"] for row in client.get(address).json()["results"]] == ["demo"]
    assert LookupRequest.objects.count() == 1
    with pytest.raises(ConnectorUnavailable, match="through a delegate"):
        list_clusters(actor=admin, connector=connector, region="us-east-1")


def make_older(seconds: float) -> None:
    """Move the begin of all lookups, and the last change of all connectors, into the past."""
    for lookup in LookupRequest.objects.all():
        requested_at = lookup.requested_at - timedelta(seconds=seconds)
        LookupRequest.objects.filter(pk=lookup.pk).update(requested_at=requested_at)
    Connector.objects.update(updated_at=get_database_time() - timedelta(hours=1))


def test_an_answer_that_took_longer_than_the_window_is_returned(
    connector: Connector, admin: User, browse: Browse
) -> None:
    prod, client = hand("prod-eu", tags=("prod",)), browse(admin)
    address = f"/api/v1/connectors/{connector.pk}/clusters?region=us-east-1"
    assert client.get(address).status_code == 202
    make_older(seconds=55)
    assert client.get(address).status_code == 202
    assert LookupRequest.objects.count() == 1
    prod.serve()
    make_older(seconds=5)
    assert (client.get(address).status_code, LookupRequest.objects.count()) == (200, 1)


def test_a_delegate_that_never_came_is_an_error_and_not_another_wait(
    connector: Connector, admin: User, browse: Browse
) -> None:
    hand("prod-eu", tags=("prod",))
    client = browse(admin)
    address = f"/api/v1/connectors/{connector.pk}/clusters?region=us-east-1"
    assert client.get(address).status_code == 202
    DelegateTask.objects.update(offered_to=None, offered_until=None, deadline=get_database_time())
    route_waiting_tasks(get_database_time())
    make_older(seconds=61)
    assert client.get(address).status_code == 409


def test_an_answer_is_read_again_when_the_window_after_its_end_is_over(
    connector: Connector, admin: User, browse: Browse
) -> None:
    prod, client = hand("prod-eu", tags=("prod",)), browse(admin)
    address = f"/api/v1/connectors/{connector.pk}/clusters?region=us-east-1"
    assert client.get(address).status_code == 202
    prod.serve()
    make_older(seconds=60)
    LookupRequest.objects.update(finished_at=get_database_time() - timedelta(seconds=31))
    assert (client.get(address).status_code, LookupRequest.objects.count()) == (202, 2)


def test_users_share_a_lookup_that_runs_for_longer_than_a_minute(connector: Connector, admin: User) -> None:
    hand("prod-eu", tags=("prod",))
    query = {"kind": LookupRequest.Kind.STARTS, "region": "us-east-1", "subject": "demo/web/web"}
    first = read_shared_options(actor=admin, connector=connector, **query)
    make_older(seconds=61)
    connector.refresh_from_db()
    assert read_shared_options(actor=admin, connector=connector, **query) == first


def test_a_lookup_of_a_process_that_died_is_not_waited_for(connector: Connector, admin: User) -> None:
    query = LookupQuery(admin, connector, LookupRequest.Kind.STARTS, "us-east-1", "demo/web/web")
    lookup = LookupRequest.objects.create(
        connector=connector,
        kind=query.kind,
        region=query.region,
        subject=query.subject,
        requested_by=admin,
        requested_at=get_database_time(),
    )
    assert find_recent_request(query) == lookup
    make_older(seconds=31)
    connector.refresh_from_db()
    assert find_recent_request(query) is None


def test_the_page_says_that_a_delegate_is_at_it_and_then_what_came(
    connector: Connector, admin: User, browse: Browse
) -> None:
    prod, client = hand("prod-eu", tags=("prod",)), browse(admin)
    panel = {"HX-Request": "true", "HX-Target": "last-test"}
    response = client.post(f"/connectors/{connector.pk}/test/", headers=panel)
    assert b"Testing AWS through a delegate" in response.content
    lookup = LookupRequest.objects.get()
    address = f"/connectors/{connector.pk}/tests/{lookup.pk}/"
    assert address in response.content.decode()
    prod.serve()
    assert b"prod-eu on ip-10-0-1-7" in client.get(address, headers=panel).content
    row = client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "1 ECS cluster" in row


@pytest.mark.parametrize("target", ["last-test", ""])
def test_a_connector_that_cannot_be_used_says_so_in_the_part_that_asked(
    connector: Connector, admin: User, browse: Browse, settings: Settings, target: str
) -> None:
    settings.ALLOW_AWS_ENDPOINTS = False
    headers = {"HX-Request": "true", "HX-Target": target}
    response = browse(admin).post(f"/connectors/{connector.pk}/test/", headers=headers)
    text = response.content.decode()
    assert response.status_code == 200
    assert "endpoint" in text
    assert 'role="alert"' in text
    assert "<html" not in text
    assert not LookupRequest.objects.exists()


def test_asking_needs_access_to_the_connector(connector: Connector, viewer: User) -> None:
    with pytest.raises(Forbidden):
        create_lookup_request(actor=viewer, connector=connector, kind=LookupRequest.Kind.TEST)
    with pytest.raises(Forbidden):
        get_or_create_lookup_request(
            actor=viewer, connector=connector, kind=LookupRequest.Kind.CLUSTERS, region="us-east-1"
        )


def test_a_lost_delegate_is_followed_by_another(connector: Connector, admin: User) -> None:
    first = hand("first", tags=("prod",))
    create_lookup_request(actor=admin, connector=connector, kind=LookupRequest.Kind.TEST)
    route_waiting_tasks(get_database_time())
    task = first.take()
    assert task is not None
    first.instance.delegate.admission = "DISABLED"
    first.instance.delegate.save()
    first.lose(task)
    hand("second", tags=("prod",), hostname="ip-10-0-1-8").serve()
    assert DelegateTask.objects.filter(status="SUCCEEDED").count() == 2
    connector.refresh_from_db()
    assert connector.last_test_ok


@pytest.mark.parametrize("resource", ["clusters", "load-balancers"])
def test_another_connector_is_not_asked_for_resources_of_aws(
    project: Scope, admin: User, browse: Browse, resource: str
) -> None:
    spec = {"url": "https://registry.example.com/v2/", "connect_through": "Delegate"}
    registry = create_connector(
        actor=admin, scope=project, identifier="images", name="Images", kind="DockerRegistry", spec=spec
    )
    answer = browse(admin).get(f"/api/v1/connectors/{registry.pk}/{resource}?region=us-east-1")
    assert (answer.status_code, answer.json()["code"]) == (409, "connector_not_usable")
    assert "is for Docker registry, not for AWS" in answer.json()["detail"]
    assert not DelegateTask.objects.exists()
