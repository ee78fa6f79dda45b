"""Polled repositories: a baseline first, then a run for each new tag and each moved digest."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from catalog.models import Artifact
from connectors.models import Connector, EventQueue
from connectors.operations import create_connector, create_secret
from connectors.usages import find_usages
from delegates.event_queues.coverage import QueueCoverage
from delegates.event_queues.events import PushEvent, notify_listeners
from deployments.models import Execution
from pipelines import tasks
from pipelines.models import Trigger, TriggerFiring, TriggerWatch
from pipelines.triggers import looks, operations, repository_looks
from pipelines.triggers.kinds.image import ImagePush
from pipelines.triggers.repository_looks import READING
from pipelines.triggers.watches import WOKEN, restart_watches
from rbac.models import RoleAssignment, User
from tests.api.sample_project import World
from tests.catalog.artifacts.ecr import create_repository
from tests.catalog.artifacts.registry import Registry, start_registry
from tests.fixtures.fake_delegates import hand
from tests.fixtures.git import PASSWORD
from web.clock import get_database_time
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
ONE, TWO, THREE = (f"sha256:{digit * 64}" for digit in "123")
SPEC = {"images": ["shop/web"], "tags": ["v*"], "poll": "5", "connector": "hub", "region": ""}


@pytest.fixture
def hub(world: World, admin: User) -> Iterator[Registry]:
    TriggerFiring.objects.all().delete()
    Artifact.objects.update(image="registry.example/shop/web")
    with start_registry(v1=ONE, nightly=ONE) as registry_server:
        secret = create_secret(actor=admin, scope=world.scope, identifier="word", name="Word", value=PASSWORD)
        login = {"url": registry_server.url, "authentication": "UsernamePassword", "username": "me"}
        create_connector(
            actor=admin,
            scope=world.scope,
            identifier="hub",
            name="Hub",
            kind="DockerRegistry",
            spec=login,
            secret=secret,
        )
        yield registry_server


def create_poll(world: World, **spec: Any) -> Trigger:
    fields = operations.TriggerSpec(
        "Images", SPEC | spec, service_account=world.service_account, tag="<+trigger.tag>"
    )
    actor = User.objects.get(username="admin")
    return operations.create_trigger(
        actor=actor, pipeline=world.pipeline, identifier="images", kind="image", spec=fields
    )[0]


def look_now() -> list[str]:
    """Have all watches looked at to their ends, and the events handled; return the tags of all runs."""
    TriggerWatch.objects.update(due_at=get_database_time())
    while due := looks.list_due_watches(get_database_time()):
        for pk in due:
            looks.look(pk, get_database_time())
    tasks.process_firings()
    runs = Execution.objects.exclude(cause="").order_by("number")
    return list(runs.values_list("tag", flat=True))


def test_the_first_look_starts_nothing_and_later_ones_what_was_pushed(world: World, hub: Registry) -> None:
    create_poll(world)
    assert look_now() == []
    hub.tags |= {"v1": THREE, "v2": TWO, "nightly": TWO}
    assert sorted(look_now()) == ["v1", "v2"]
    assert len(look_now()) == 2
    moved = Execution.objects.get(tag="v1", cause__contains="shop/web:v1 (333333333333)")
    assert moved.artifact["digest"] == THREE
    watch = TriggerWatch.objects.get()
    assert (watch.problem, watch.looked_at is not None, watch.lookup) == ("", True, None)


def test_the_pushes_of_a_look_keep_their_order(
    world: World, hub: Registry, admin: User, browse: Browse
) -> None:
    trigger = create_poll(world)
    look_now()
    hub.tags |= {f"v{number}": TWO for number in range(2, 10)}
    pushed = [f"v{number}" for number in range(2, 10)]
    assert look_now() == pushed
    assert list(TriggerFiring.objects.order_by("received_at").values_list("values__tag", flat=True)) == pushed
    listed = browse(admin).get(f"/api/v1/triggers/{trigger.pk}/firings").json()["results"]
    assert [row["summary"].partition(":")[2].split()[0] for row in listed] == pushed[::-1]


def test_a_push_that_the_registry_reports_too_starts_one_run(world: World, hub: Registry) -> None:
    trigger = create_poll(world)
    look_now()
    hub.tags["v2"] = TWO
    target = {"repository": "shop/web", "tag": "v2", "digest": TWO}
    body = json.dumps({"events": [{"id": "1", "action": "push", "target": target}]})
    address = reverse("trigger-hook", args=[trigger.key])
    headers = {"X-Slipway-Token": trigger.secret}
    assert Client().post(address, body, "application/json", headers=headers).json()["duplicates"] == 0
    assert look_now() == ["v2"]
    assert Client().post(address, body, "application/json", headers=headers).json()["duplicates"] == 1


def test_a_push_of_docker_hub_is_looked_up_at_once_for_its_digest(world: World, hub: Registry) -> None:
    trigger = create_poll(world)
    look_now()
    hub.tags["v2"] = TWO
    push = {"tag": "v2", "pushed_at": 1_790_000_000}
    body = json.dumps({"push_data": push, "repository": {"repo_name": "shop/web"}})
    address = f"{reverse('trigger-hook', args=[trigger.key])}?token={trigger.secret}"
    assert Client().post(address, body, "application/json").json()["firings"] == []
    assert TriggerWatch.objects.get().due_at <= get_database_time()
    assert look_now() == ["v2"]
    assert Execution.objects.get(tag="v2").artifact["digest"] == TWO


def push_to_hub(trigger: Trigger, hub: Registry, tag: str, moment: int) -> None:
    hub.tags[tag] = TWO
    push = {"push_data": {"tag": tag, "pushed_at": moment}, "repository": {"repo_name": "shop/web"}}
    address = f"{reverse('trigger-hook', args=[trigger.key])}?token={trigger.secret}"
    assert Client().post(address, json.dumps(push), "application/json").json()["firings"] == []


def look_due() -> int:
    """Have the due watches looked at for one part, and return their number."""
    due = looks.list_due_watches(get_database_time())
    for pk in due:
        looks.look(pk, get_database_time())
    return len(due)


def test_a_push_during_a_look_is_looked_up_right_after_it(world: World, hub: Registry) -> None:
    trigger = create_poll(world, poll="60")
    look_now()
    push_to_hub(trigger, hub, "v2", 1_790_000_000)
    assert look_due() == 1
    assert READING in TriggerWatch.objects.get().state
    push_to_hub(trigger, hub, "v3", 1_790_000_001)
    # The digests of the first look, and a look of its own.
    for _ in range(3):
        assert look_due() == 1
    assert look_due() == 0
    tasks.process_firings()
    tags = Execution.objects.exclude(cause="").values_list("tag", flat=True)
    assert sorted(tags) == ["v2", "v3"]
    assert WOKEN not in TriggerWatch.objects.get().state


def test_a_push_during_a_look_that_fails_is_looked_up_after_a_pause(world: World, hub: Registry) -> None:
    trigger = create_poll(world, poll="60")
    look_now()
    push_to_hub(trigger, hub, "v2", 1_790_000_000)
    assert look_due() == 1
    push_to_hub(trigger, hub, "v3", 1_790_000_001)
    Connector.objects.filter(identifier="hub").update(identifier="gone")
    assert look_due() == 1
    watch = TriggerWatch.objects.get()
    assert "There is no connector hub" in watch.problem
    assert watch.due_at <= get_database_time() + looks.FAULT_PAUSE
    Connector.objects.filter(identifier="gone").update(identifier="hub")
    assert sorted(look_now()) == ["v2", "v3"]


def test_a_push_while_a_worker_looks_makes_its_findings_void(world: World, hub: Registry) -> None:
    trigger = create_poll(world, poll="60")
    look_now()
    now = get_database_time()
    claim = now + looks.CLAIM_DURATION
    TriggerWatch.objects.update(due_at=claim)
    watch = TriggerWatch.objects.get()
    result = looks._look(watch)
    push_to_hub(trigger, hub, "v2", 1_790_000_000)
    assert looks._record(watch, claim, result) is False
    while look_due():
        pass
    tasks.process_firings()
    assert Execution.objects.exclude(cause="").get().tag == "v2"


def test_digests_of_many_tags_are_read_in_turns(
    world: World, hub: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_looks, "REGISTRY_DIGESTS", 2)
    hub.tags = {f"v{number}": ONE for number in range(1, 6)}
    create_poll(world)
    for _ in range(3):
        assert look_now() == []
    hub.tags["v3"] = TWO
    for _ in range(3):
        look_now()
    assert look_now() == ["v3"]


def test_a_fault_is_shown_and_the_next_look_catches_up(
    world: World, hub: Registry, admin: User, browse: Browse
) -> None:
    trigger = create_poll(world)
    look_now()
    hub.status = 503
    hub.tags["v2"] = TWO
    assert look_now() == []
    page = browse(admin).get(f"/triggers/{trigger.pk}/").content.decode()
    assert "has a server error (503)" in page
    hub.status = 200
    assert look_now() == ["v2"]
    assert TriggerWatch.objects.get().problem == ""


def test_an_account_without_access_to_the_connector_reads_nothing(world: World, hub: Registry) -> None:
    create_poll(world)
    RoleAssignment.objects.filter(user=world.service_account.user).delete()
    assert look_now() == []
    assert hub.list_requests == 0
    assert "The service account cannot view the connector" in TriggerWatch.objects.get().problem


def test_a_baseline_is_new_with_other_settings_after_a_pause_and_after_a_restore(
    world: World, hub: Registry, admin: User
) -> None:
    trigger = create_poll(world)
    look_now()
    hub.tags["v2"] = TWO
    operations.set_enabled(actor=admin, trigger=trigger, is_enabled=False)
    assert not TriggerWatch.objects.exists()
    operations.set_enabled(actor=admin, trigger=trigger, is_enabled=True)
    assert look_now() == []
    hub.tags["v3"] = THREE
    restart_watches(get_database_time())
    assert look_now() == []
    spec = operations.TriggerSpec("Images", SPEC | {"tags": []}, world.service_account, "<+trigger.tag>")
    operations.update_trigger(actor=admin, trigger=trigger, spec=spec)
    assert look_now() == []


def test_an_edit_that_changes_only_the_interval_keeps_the_baseline(
    world: World, hub: Registry, admin: User
) -> None:
    trigger = create_poll(world)
    look_now()
    hub.tags["v2"] = TWO
    spec = operations.TriggerSpec("Images", SPEC | {"poll": "60"}, world.service_account, "<+trigger.tag>")
    operations.update_trigger(actor=admin, trigger=trigger, spec=spec)
    assert look_now() == ["v2"]
    assert TriggerWatch.objects.get().interval_seconds == 3600


def test_of_two_workers_one_looks_and_a_late_one_writes_nothing(world: World, hub: Registry) -> None:
    create_poll(world)
    look_now()
    hub.tags["v2"] = TWO
    [watch] = TriggerWatch.objects.all()
    now = get_database_time()
    TriggerWatch.objects.update(due_at=now)
    claim = now + looks.CLAIM_DURATION
    assert TriggerWatch.objects.filter(due_at__lte=now).update(due_at=claim) == 1
    assert looks.look(watch.pk, now) is False
    result = looks._look(watch)
    # The claim has run out meanwhile, and another worker has it.
    TriggerWatch.objects.update(due_at=claim + looks.CLAIM_DURATION)
    assert looks._record(watch, claim, result) is False
    assert look_now() == ["v2"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"images": ["shop/*"]}, "spec.images"),
        ({"images": ["shop/web"] * 2}, "spec.images"),
        ({"connector": ""}, "spec.connector"),
        ({"region": "Mars"}, "spec.region"),
        ({"poll": "0"}, "spec.poll"),
    ],
)
def test_what_cannot_be_polled_is_refused(spec: dict[str, Any], path: str) -> None:
    assert ImagePush().list_problems(SPEC) == []
    assert [problem["path"] for problem in ImagePush().list_problems(SPEC | spec)] == [path]


def test_a_connector_that_does_not_exist_is_refused(world: World) -> None:
    with pytest.raises(BadInput, match="not valid"):
        create_poll(world, connector="missing")


def test_a_connector_names_the_triggers_that_poll_through_it(
    world: World, hub: Registry, admin: User
) -> None:
    trigger = create_poll(world)
    connector = Connector.objects.get(identifier="hub")
    assert f"trigger {trigger.name}" in str(find_usages(connector, admin))


@pytest.mark.django_db(transaction=True)
def test_a_registry_behind_a_delegate_is_read_by_it(world: World, hub: Registry) -> None:
    connector = Connector.objects.get(identifier="hub")
    connector.spec |= {"connect_through": "Delegate"}
    connector.save()
    delegate = hand("prod-eu")
    create_poll(world)

    # Tags are listed by one task, and their digests read by another one.
    for _ in range(5):
        tick()
        delegate.serve()
    hub.tags["v2"] = TWO
    for _ in range(7):
        tick()
        delegate.serve()
    assert Execution.objects.exclude(cause="").get().artifact["digest"] == TWO
    assert TriggerWatch.objects.get().problem == ""


def tick() -> None:
    """Look once at each watch, and handle the events."""
    TriggerWatch.objects.update(due_at=get_database_time())
    for pk in looks.list_due_watches(get_database_time()):
        looks.look(pk, get_database_time())
    tasks.process_firings()


def test_ecr_tells_all_digests_in_one_call(
    world: World, admin: User, sandbox: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ALLOW_AWS_ENDPOINTS = True
    sandbox.seed()
    push = create_repository(sandbox.url)
    push("v1")
    Connector.objects.filter(identifier="aws").update(
        spec={
            "credentials": "AccessKey",
            "access_key_id": "AKIASANDBOX",
            "endpoint_url": sandbox.url,
            "test_region": "us-east-1",
        }
    )
    TriggerFiring.objects.all().delete()
    create_poll(world, connector="aws")
    assert look_now() == []
    digest = push("v2")
    assert look_now() == ["v2"]
    assert TriggerFiring.objects.get().values["digest"] == digest


@pytest.mark.parametrize(
    ("region", "repository", "is_due"),
    [
        ("us-east-1", "shop/web", True),
        ("eu-west-1", "shop/web", False),
        ("us-east-1", "shop/other", False),
    ],
)
def test_a_push_to_ecr_has_the_repository_looked_at_now(
    world: World, hub: Registry, region: str, repository: str, is_due: bool
) -> None:
    connector = world.connector
    create_poll(world, connector=connector.identifier, region="us-east-1")
    now = get_database_time()
    later = now + timedelta(minutes=5)
    TriggerWatch.objects.update(looked_at=now, due_at=later)
    queue = EventQueue(pk=1, connector=connector, region=region)
    events = [PushEvent(region, repository)] * 2
    notify_listeners(QueueCoverage.of(queue), events, now)
    watch = TriggerWatch.objects.get()
    assert (watch.due_at, WOKEN in watch.state) == ((now, True) if is_due else (later, False))
    TriggerWatch.objects.update(looked_at=None, due_at=later)
    notify_listeners(QueueCoverage.of(queue), events, now)
    assert TriggerWatch.objects.get().due_at == later
