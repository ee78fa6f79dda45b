"""What people decide on a delegate: each decision changes it once, is written down, and is told."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from connectors.models import Connector
from delegates.models import Delegate, DelegateEvent, DelegateLogChunk
from delegates.operations import delegates as operations
from delegates.operations.delegates import delete_delegate
from rbac.models import AuditEntry, Scope, User
from tests.fixtures.delegates import make_delegate, make_instance, make_task
from tests.fixtures.people import make_person
from web.http.problems import BadInput, Conflict

pytestmark = pytest.mark.django_db


@pytest.fixture
def delegate(project: Scope) -> Delegate:
    return make_delegate(project, "eu", tags=["prod"])


@pytest.fixture
def api(admin: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(admin)
    return client


def get_last_entry() -> AuditEntry:
    return AuditEntry.objects.latest("pk")


@pytest.mark.parametrize(
    ("decision", "before", "after", "kind"),
    [
        ("approve", "PENDING_APPROVAL", "ENABLED", "APPROVED"),
        ("approve", "REJECTED", "ENABLED", "APPROVED"),
        ("reject", "PENDING_APPROVAL", "REJECTED", "REJECTED"),
        ("disable", "ENABLED", "DISABLED", "DISABLED"),
        ("enable", "DISABLED", "ENABLED", "ENABLED"),
    ],
)
def test_a_decision_is_taken_once_and_written_down(
    delegate: Delegate, admin: User, decision: str, before: str, after: str, kind: str
) -> None:
    delegate.admission = before
    delegate.save()
    decide = getattr(operations, f"{decision}_delegate")
    decide(actor=admin, delegate=delegate)
    delegate.refresh_from_db()
    assert delegate.admission == after
    event = DelegateEvent.objects.get(delegate=delegate)
    assert (event.kind, event.text) == (kind, f"{event.get_kind_display()} by {admin}.")
    entry = get_last_entry()
    assert (entry.action, entry.actor) == (f"delegate.{decision}", admin)
    assert entry.before is not None
    assert entry.before["admission"] == before
    with pytest.raises(Conflict, match="The delegate eu is "):
        decide(actor=admin, delegate=delegate)


def test_a_drained_delegate_can_be_enabled_again(delegate: Delegate, api: APIClient) -> None:
    make_instance(delegate)
    address = f"/api/v1/delegates/{delegate.pk}"
    assert api.post(f"{address}/drain").json()["status"] == "DRAINING"
    assert api.post(f"{address}/drain").status_code == 409
    assert api.post(f"{address}/enable").json()["status"] == "CONNECTED"
    actions = AuditEntry.objects.filter(action__startswith="delegate.").order_by("pk")
    assert [entry.action for entry in actions] == ["delegate.drain", "delegate.enable"]
    assert [event.kind for event in delegate.events.order_by("pk")] == ["DRAINING", "ENABLED"]


def test_tags_of_people_are_replaced_and_those_of_agents_stay(delegate: Delegate, api: APIClient) -> None:
    make_instance(delegate, tags=["said"])
    address = f"/api/v1/delegates/{delegate.pk}/tags"
    tags_body = api.put(address, {"tags": [" eu-1 ", "eu-1", "x"]}, format="json").json()
    assert (tags_body["own_tags"], tags_body["tags"]) == (["eu-1", "x"], ["eu-1", "x", "said", "eu"])
    tags_body = api.delete(address).json()
    assert (tags_body["own_tags"], tags_body["tags"]) == ([], ["said", "eu"])
    before = get_last_entry().before
    assert before is not None
    assert before["tags"] == ["eu-1", "x"]


@pytest.mark.parametrize("tags", [["a b"], ["a,b"], ["\u202ea"], ["x" * 129], [str(n) for n in range(51)]])
def test_what_is_no_tag_is_refused(delegate: Delegate, admin: User, tags: list[str]) -> None:
    with pytest.raises(BadInput) as error:
        operations.update_delegate(actor=admin, delegate=delegate, tags=tags)
    assert error.value.errors[0]["path"] == "tags"
    delegate.refresh_from_db()
    assert delegate.tags == ["prod"]


@pytest.mark.parametrize("tag", ["a b", "a,b", "<b>", "4\x17", "x" * 129])
def test_the_api_names_the_tag_that_it_refuses(delegate: Delegate, api: APIClient, tag: str) -> None:
    for ask, address in ((api.put, "/tags"), (api.patch, "")):
        refused = ask(f"/api/v1/delegates/{delegate.pk}{address}", {"tags": ["eu-1", tag]}, format="json")
        assert refused.status_code == 400
        assert [error["path"] for error in refused.json()["errors"]] == ["tags.1"]
    delegate.refresh_from_db()
    assert delegate.tags == ["prod"]


def test_a_delegate_is_changed_only_from_the_version_that_was_read(
    delegate: Delegate, api: APIClient
) -> None:
    address = f"/api/v1/delegates/{delegate.pk}"
    tag = api.get(address)["ETag"]
    update_response = api.patch(address, {"description": "New"}, format="json", headers={"if-match": tag})
    assert update_response.json()["description"] == "New"
    stale_response = api.patch(address, {"description": "Newer"}, format="json", headers={"if-match": tag})
    assert stale_response.status_code == 412


def test_a_change_keeps_what_somebody_else_changed_meanwhile(delegate: Delegate, admin: User) -> None:
    former = Delegate.objects.get(pk=delegate.pk)
    operations.update_delegate(actor=admin, delegate=delegate, shares_scripts=True, tags=["canary"])
    operations.update_delegate(actor=admin, delegate=former, description="cellar")
    delegate.refresh_from_db()
    assert (delegate.shares_scripts, delegate.tags, delegate.description) == (
        True,
        ["canary"],
        "cellar",
    )


def test_a_delegate_does_not_go_while_it_works(delegate: Delegate, admin: User, project: Scope) -> None:
    make_task(project, status="STARTED", instance=make_instance(delegate))
    with pytest.raises(Conflict, match="1 of its tasks is still running"):
        delete_delegate(actor=admin, delegate=delegate, although_used=True)


def test_a_delegate_whose_tags_are_named_goes_only_on_demand(
    delegate: Delegate, project: Scope, admin: User
) -> None:
    spec = {"connect_through": "Delegate", "delegate_selectors": ["prod"]}
    Connector.objects.create(scope=project, identifier="aws", name="Production", spec=spec)
    with pytest.raises(Conflict, match="Production"):
        delete_delegate(actor=admin, delegate=delegate)
    delete_delegate(actor=admin, delegate=delegate, although_used=True)
    assert not Delegate.objects.filter(name="eu").exists()
    assert get_last_entry().action == "delegate.delete"


def test_the_built_in_delegate_can_be_disabled_and_not_deleted(admin: User) -> None:
    built_in = Delegate.objects.get(is_built_in=True)
    with pytest.raises(Conflict, match="Disable it instead"):
        delete_delegate(actor=admin, delegate=built_in, although_used=True)
    assert operations.disable_delegate(actor=admin, delegate=built_in).admission == "DISABLED"


def test_a_delegate_above_is_seen_below_and_changed_only_where_one_may(
    account: Scope, project: Scope
) -> None:
    """R053, R078: a delegate of the account serves every project, whose people cannot change it."""
    account_delegate = make_delegate(account, "shared")
    person = APIClient()
    person.force_authenticate(make_person("alex", "project_admin", project))
    address = f"/api/v1/delegates/{account_delegate.pk}"
    assert person.get(address).json()["name"] == "shared"
    assert person.patch(address, {"description": "Mine"}, format="json").status_code == 403
    assert person.post(f"{address}/disable").status_code == 403
    assert person.delete(address).status_code == 403


def test_the_list_of_the_api_finds_a_delegate_by_its_name(delegate: Delegate, api: APIClient) -> None:
    make_delegate(delegate.scope, "eu-2")
    instance = make_instance(delegate, version="1.2", ecs={"cluster": "main"}, tags=["said"])
    make_task(delegate.scope, status="STARTED", instance=instance)
    rows: list[dict[str, Any]] = api.get("/api/v1/delegates?name=eu").json()["results"]
    assert [(row["name"], row["status"], row["running"]) for row in rows] == [("eu", "CONNECTED", 1)]
    instance_row = rows[0]["instances"][0]
    assert (instance_row["id"], instance_row["status"], instance_row["version"]) == (
        instance.pk,
        "CONNECTED",
        "1.2",
    )
    assert (instance_row["running"], instance_row["ecs"], instance_row["connection"]) == (
        1,
        {"cluster": "main"},
        "WEBSOCKET",
    )


def test_the_log_of_an_agent_is_read_on_from_where_one_is(delegate: Delegate, api: APIClient) -> None:
    instance = make_instance(delegate)
    for first in range(1, 1001, 100):
        text = "\n".join(f"line {number}" for number in range(first, first + 100))
        DelegateLogChunk.objects.create(instance=instance, sequence=first, count=100, text=text)
    address = f"/api/v1/delegates/{delegate.pk}/logs"
    last_chunk = api.get(address).json()
    assert (last_chunk["first"], last_chunk["next"], len(last_chunk["lines"])) == (501, 1001, 500)
    middle_chunk = api.get(f"{address}?after=250").json()
    assert (middle_chunk["first"], middle_chunk["lines"][0], middle_chunk["next"]) == (250, "line 250", 750)
    end = api.get(f"{address}?after=1001").json()
    assert (end["lines"], end["next"]) == ([], 1001)
    assert api.get(f"{address}?after=x").status_code == 400
    assert api.get(f"{address}?instance=0").json()["instance"] is None
