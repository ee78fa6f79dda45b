"""The list of delegates: who sees which, what a row says, and how it is narrowed."""

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from delegates.connectivity import (
    Connectivity,
    build_away_filter,
    build_connected_filter,
    build_connectivity_case,
    compute_delegate_status,
)
from delegates.models import Delegate, DelegateEvent
from delegates.queries import delegates as queries
from delegates.queries.delegates import count_presence
from rbac.models import Scope, User
from tests.fixtures.delegates import make_delegate, make_instance, make_task
from tests.fixtures.people import make_person, make_project

pytestmark = pytest.mark.django_db


def list_names(client: Client, query: str = "") -> list[str]:
    return [row.name for row in client.get(f"/delegates/{query}").context["delegates"]]


def test_the_database_and_python_agree_on_every_status(project: Scope) -> None:
    now = timezone.now()
    ages = (None, 5, 89, 91, 149, 151)
    states = (("REGISTERED", None), ("REGISTERED", now), ("DRAINING", None), ("GONE", None))
    variants = [[(age, status, suspect)] for age, (status, suspect) in itertools.product(ages, states)] + [
        [(200, "GONE", None), (5, "DRAINING", None)],
        [(100, "REGISTERED", None), (5, "DRAINING", None)],
        [(5, "REGISTERED", now), (5, "REGISTERED", None)],
        [],
    ]
    for number, (instances, draining) in enumerate(itertools.product(variants, (False, True))):
        delegate = make_delegate(project, f"d{number}", draining=draining)
        for key, (age, status, suspect_since) in enumerate(instances):
            instance = make_instance(delegate, f"host/{key}", status=status, suspect_since=suspect_since)
            instance.last_heartbeat_at = None if age is None else now - timedelta(seconds=age)
            instance.save()
    for admission in Delegate.Admission.values:
        make_instance(make_delegate(project, admission, admission=admission))
        make_delegate(project, f"{admission} archived", admission=admission, archived_at=now)
    delegates = Delegate.objects.prefetch_related("instances").annotate(
        connectivity=build_connectivity_case(now)
    )
    statuses = {row.name: row.connectivity for row in delegates}
    assert statuses == {
        row.name: compute_delegate_status(row, row.instances.all(), now).value for row in delegates
    }
    assert set(statuses.values()) == {member.value for member in Connectivity}
    away_names = {
        name for name, status in statuses.items() if status in (Connectivity.LATE, Connectivity.DISCONNECTED)
    }
    assert set(Delegate.objects.filter(build_away_filter(now)).values_list("name", flat=True)) == away_names
    connected_names = {name for name, status in statuses.items() if status == Connectivity.CONNECTED}
    assert (
        set(Delegate.objects.filter(build_connected_filter(now)).values_list("name", flat=True))
        == connected_names
    )


def test_who_is_away_is_named_with_the_words_of_the_list(
    project: Scope, django_assert_num_queries: Any
) -> None:
    now = timezone.now()
    states = (
        ("connected", 5, "REGISTERED", None),
        ("gone", 30, "GONE", None),
        ("heard-again", 200, "REGISTERED", None),
        ("late", 100, "REGISTERED", None),
        ("refused", 300, "REGISTERED", None),
        ("socket", 5, "REGISTERED", now),
        ("away", 600, "REGISTERED", None),
        ("zone", 700, "REGISTERED", None),
    )
    make_delegate(project, "new")
    for name, age, status, suspect_since in states:
        instance = make_instance(
            make_delegate(project, name), f"{name}/1", status=status, suspect_since=suspect_since
        )
        instance.last_heartbeat_at = now - timedelta(seconds=age)
        instance.save()
    for name, age in (("refused", 60), ("heard-again", 400), ("late", 20)):
        DelegateEvent.objects.create(
            scope=project, name=name, kind="REFUSED", text=f"Refused {age}.", at=now - timedelta(seconds=age)
        )
    project_delegates = Delegate.objects.filter(scope=project)
    with django_assert_num_queries(4):
        presence = count_presence(project_delegates, now, 6)
    assert (presence.total, presence.connected) == (9, 1)
    away_names = ["away", "gone", "heard-again", "late", "refused", "socket"]
    away_delegates = queries.prefetch_instances(
        project_delegates.filter(name__in=away_names).order_by("name")
    )
    facts = queries.list_delegate_facts(away_delegates, now)
    assert [(row.pk, row.name, row.status, row.reason, row.last_heartbeat_at) for row in presence.away] == [
        (row.pk, row.name, row.status, row.reason, row.last_heartbeat_at) for row in facts
    ]
    assert [row.name for row in presence.away] == away_names
    assert "Refused 60." in {row.reason for row in presence.away}
    assert count_presence(project_delegates.none(), now, 6).total == 0


def test_who_works_in_a_project_sees_its_delegates_and_those_above_it(account: Scope) -> None:
    """The worked example of R054: each may use the delegates of the project and of all above it."""
    alex, uri = make_project("org1", "p1"), make_project("org2", "p2")
    scopes = (("d1", account), ("d2", alex.parent), ("d3", uri.parent), ("d4", alex), ("d5", uri))
    for name, scope in scopes:
        assert scope is not None
        make_delegate(scope, name)
    names_by_reader = {}
    for name, scope in (("alex", alex), ("uri", uri)):
        reader = Client()
        reader.force_login(make_person(name, "viewer", scope))
        names_by_reader[name] = list_names(reader)
    assert names_by_reader == {"alex": ["built-in", "d1", "d2", "d4"], "uri": ["built-in", "d1", "d3", "d5"]}


def test_a_row_says_what_is_there_and_what_is_not(project: Scope) -> None:
    now = timezone.now()
    delegate = make_delegate(project, "eu", tags=["prod"])
    instance = make_instance(delegate, "a/10.0.0.1", tags=["eu-west-1"], version="1.2", capacity=10)
    make_instance(
        delegate, "b/10.0.0.2", tags=["lingers"], heartbeat_at=now - timedelta(minutes=5), capacity=10
    )
    make_instance(delegate, "c/10.0.0.3", tags=["went"], status="GONE")
    make_task(project, status="STARTED", instance=instance)
    facts = queries.list_delegate_facts(
        queries.prefetch_instances(Delegate.objects.filter(pk=delegate.pk)), now
    )[0]
    assert facts.status == "CONNECTED"
    assert (facts.connected, facts.expected, facts.running, facts.capacity) == (1, 2, 1, 10)
    assert facts.tags == ("prod", "eu-west-1", "eu")
    assert (facts.versions, facts.connections, facts.reason) == (("1.2",), ("WebSocket",), "")


def test_a_delegate_without_a_heartbeat_says_why_it_takes_no_work(project: Scope) -> None:
    delegate = make_delegate(project)
    make_instance(delegate, heartbeat_at=timezone.now() - timedelta(minutes=5))
    facts = queries.list_delegate_facts(queries.prefetch_instances(Delegate.objects.filter(pk=delegate.pk)))[
        0
    ]
    assert (facts.status, facts.capacity) == ("DISCONNECTED", 0)
    assert facts.reason == "No heartbeat for 150 seconds."


def test_a_refused_or_ended_session_is_the_reason_until_it_is_heard_again(project: Scope) -> None:
    now = timezone.now()
    delegate = make_delegate(project, "eu")

    def get_reason() -> str:
        return queries.list_delegate_facts(
            queries.prefetch_instances(Delegate.objects.filter(pk=delegate.pk)), now
        )[0].reason

    event_fields = {"scope": project, "name": "eu", "at": now - timedelta(minutes=4)}
    DelegateEvent.objects.create(**event_fields, kind="REFUSED", text="The token is not known.")
    assert get_reason() == "The token is not known."
    instance = make_instance(delegate, heartbeat_at=now - timedelta(minutes=3))
    assert get_reason() == "No heartbeat for 150 seconds."
    event_fields["at"] = now - timedelta(minutes=1)
    DelegateEvent.objects.create(
        **event_fields, delegate=delegate, kind="SESSION_ENDED", text="Its token was revoked."
    )
    assert get_reason() == "Its token was revoked."
    instance.last_heartbeat_at = now
    instance.save()
    assert get_reason() == ""


def test_the_list_is_narrowed_by_status_tag_and_name(project: Scope, viewer: User, client: Client) -> None:
    client.force_login(viewer)
    make_instance(make_delegate(project, "prod-eu", tags=["Prod"]), tags=["eu"])
    make_delegate(project, "lab")
    assert list_names(client) == ["built-in", "lab", "prod-eu"]
    assert list_names(client, "?status=connected") == ["prod-eu"]
    assert list_names(client, "?status=NEVER_CONTACTED") == ["built-in", "lab"]
    assert list_names(client, "?tag=prod") == ["prod-eu"]
    assert list_names(client, "?tag=EU") == ["prod-eu"]
    assert list_names(client, "?tag=lab") == ["lab"]
    assert list_names(client, "?q=PROD") == ["prod-eu"]
    assert list_names(client, "?status=never_contacted&q=prod") == []
    assert "No matching delegates" in client.get("/delegates/?q=nowhere").content.decode()


def test_what_an_agent_says_of_itself_is_only_text(project: Scope, viewer: User, client: Client) -> None:
    client.force_login(viewer)
    hostile_text = '<script>alert("x")</script>'
    delegate = make_delegate(project, "eu")
    make_instance(
        delegate,
        f"{hostile_text}/1",
        tags=[hostile_text, 7],
        version=hostile_text[:64],
        hostname=hostile_text,
    )
    for address in ("/delegates/", f"/delegates/{delegate.pk}/"):
        page = client.get(address).content.decode()
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page


def test_instances_that_are_not_alike_are_named_in_the_list_and_on_the_page(
    project: Scope, admin: User, browse: Callable[[User], Client]
) -> None:
    delegate = make_delegate(project, "eu")
    for number, (account, cluster) in enumerate([("111111111111", "prod"), ("222222222222", "stage")]):
        task_arn = f"arn:aws:ecs:eu-west-1:{account}:task/{cluster}/0a1b"
        ecs = {"task_arn": task_arn, "cluster": f"arn:aws:ecs:eu-west-1:{account}:cluster/{cluster}"}
        make_instance(
            delegate, f"host-{number}/10.0.0.{number}", ecs=ecs, version=f"0.{number}.0", tags=["a"]
        )
    gone = make_instance(delegate, "old/10.0.0.9", version="0.0.1", status="GONE")
    gone.save()
    expected = (
        "Its instances run in the AWS accounts 111111111111 and 222222222222.",
        "Its instances run in the clusters prod and stage.",
        "Its instances run the versions 0.0.0 and 0.1.0.",
    )
    client = browse(admin)
    (row,) = [row for row in client.get("/delegates/").context["delegates"] if row.name == "eu"]
    assert row.differences == expected
    page = client.get(f"/delegates/{delegate.pk}/").content.decode()
    assert all(sentence in page for sentence in expected)
    assert client.get(f"/api/v1/delegates/{delegate.pk}").json()["differences"] == list(expected)
