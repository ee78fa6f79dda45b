"""A queue gets one reader, also from two people who enter it in the same moment."""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial

import pytest
from django.db import connections

from connectors.models import Connector, EventQueue
from connectors.operations import create_event_queue, event_queues
from pipelines.models import Trigger, TriggerWatch
from pipelines.triggers import operations
from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from tests.fixtures.threads import run_concurrently, split
from web.http.problems import Conflict

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 3
MOMENT_SECONDS, LONGEST_SECONDS = 1.0, 30.0
URL = "https://sqs.eu-central-1.amazonaws.com/123456789012/events"


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    world = make_world(project, admin, admin)
    EventQueue.objects.all().delete()
    Connector.objects.filter(pk=world.connector.pk).update(spec={"credentials": "DefaultChain"})
    world.connector.refresh_from_db()
    return world


def create_trigger(world: World, admin: User, url: str, identifier: str) -> Trigger:
    spec = {"images": ["shop/*"], "connector": world.connector.identifier, "queue": url}
    fields = operations.TriggerSpec(
        "Pushes", spec, service_account=world.service_account, tag="<+trigger.tag>"
    )
    return operations.create_trigger(
        actor=admin, pipeline=world.pipeline, identifier=identifier, kind="image", spec=fields
    )[0]


def test_a_trigger_that_is_added_together_with_an_event_queue_is_refused(
    world: World, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add_trigger() -> object:
        try:
            return create_trigger(world, admin, URL, "pushes")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        added: list[Future[object]] = []

        def add_meanwhile(queue_url: str) -> str:
            added.append(pool.submit(add_trigger))
            wait(added, timeout=MOMENT_SECONDS)
            return ""

        finders = [*event_queues._reader_finders, add_meanwhile]
        monkeypatch.setattr(event_queues, "_reader_finders", finders)
        create_event_queue(actor=admin, connector=world.connector, queue_url=URL)
        refusal = added[0].exception(LONGEST_SECONDS)
    assert isinstance(refusal, Conflict)
    assert "event queue of a connector" in refusal.detail
    assert not TriggerWatch.objects.filter(subject=URL).exists()


def test_of_two_triggers_that_are_added_at_once_one_is_refused(world: World, admin: User) -> None:
    for number in range(ROUNDS):
        jobs = [
            partial(create_trigger, world, admin, f"{URL}-{number}", f"{name}{number}")
            for name in ("first", "second")
        ]
        _, (refusal,) = split(run_concurrently(*jobs))
        assert isinstance(refusal, Conflict)
        assert TriggerWatch.objects.filter(subject=f"{URL}-{number}").count() == 1
