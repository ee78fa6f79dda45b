"""Event queues of connectors: what may be added, and the template that creates one in AWS."""

import pytest

from connectors.event_queue_template import STACK_FILE
from connectors.models import Connector, EventQueue
from connectors.operations import create_event_queue
from connectors.required_access import MissingAccess
from delegates.event_queues import events
from delegates.event_queues.records import list_free_queues
from rbac.models import Role, RoleAssignment, Scope, User
from tests.api.sample_project import make_world
from tests.fixtures.people import make_person
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict

URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/slipway-events"


@pytest.fixture
def connector(project: Scope, admin: User) -> Connector:
    connector = make_world(project, admin, admin).connector
    EventQueue.objects.all().delete()
    connector.spec = {"credentials": "DefaultChain"}
    connector.save()
    return connector


@pytest.mark.django_db
def test_the_region_is_that_of_the_address(connector: Connector, admin: User) -> None:
    queue = create_event_queue(actor=admin, connector=connector, queue_url=URL)
    assert (queue.region, queue.get_state(queue.created_at)) == ("eu-west-1", EventQueue.State.WAITING)
    with pytest.raises(Conflict, match="has an event queue in eu-west-1"):
        create_event_queue(actor=admin, connector=connector, queue_url=f"{URL}-2")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("queue_url", "region"),
    [
        ("https://example.com/123456789012/slipway-events", "eu-west-1"),
        ("https://sqs.eu-west-1.amazonaws.com.example.com/123456789012/events", "eu-west-1"),
        (URL, "eu-central-1"),
        (URL, "nowhere"),
        (f"{URL}?a=b", ""),
        ("", ""),
    ],
)
def test_an_address_that_is_not_of_aws_is_refused(
    connector: Connector, admin: User, queue_url: str, region: str
) -> None:
    with pytest.raises(BadInput):
        create_event_queue(actor=admin, connector=connector, queue_url=queue_url, region=region)


@pytest.mark.django_db
def test_delegates_or_workers_read_the_queue_as_the_connector_says(connector: Connector, admin: User) -> None:
    queue = create_event_queue(actor=admin, connector=connector, queue_url=URL)
    now = get_database_time()
    assert (list_free_queues(now), list_free_queues(now, is_remote=True)) == ([queue.pk], [])
    connector.spec |= {"connect_through": "Delegate"}
    connector.save()
    assert (list_free_queues(now), list_free_queues(now, is_remote=True)) == ([], [queue.pk])


@pytest.mark.django_db
def test_who_adds_a_queue_must_be_allowed_to_use_its_connector(connector: Connector) -> None:
    role = Role.objects.create(scope=connector.scope, identifier="editor", name="Editor")
    role.set_permissions(["core_connector_edit", "core_connector_view"])
    editor = make_person("editor")
    RoleAssignment.objects.create(user=editor, role=role, scope=connector.scope)
    with pytest.raises(MissingAccess):
        create_event_queue(actor=editor, connector=connector, queue_url=URL)


def test_the_template_sends_each_kind_of_event_that_is_read() -> None:
    template = STACK_FILE.read_text()
    for kind in (events._TASK_CHANGE, *events._DECISIVE_TYPES, events._PUSH_TYPE, events._ALARM_TYPE):
        assert f"- {kind}\n" in template
