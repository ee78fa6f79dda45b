"""Lists grow, queries do not: an address asks the database as often for fifteen of a thing as for three."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from delegates.models import Delegate, DelegateInstance
from inventory.models.instances import SyncedCluster
from rbac.models import Scope, User
from tests.api.rows import ROWS
from tests.api.sample_project import make_world
from tests.fixtures.row_copies import complete, copy_newest_rows
from tests.routes import Address, NoCaseError, addresses

pytestmark = pytest.mark.django_db

FEW, MANY = 3, 12


def measure_queries(reader: Client, address: Address) -> tuple[int, int]:
    """Load an address and return the status and the number of queries."""
    with CaptureQueriesContext(connection) as queries:
        status = reader.get(address.path).status_code
    return status, len(queries)


def build_warm_client(person: User) -> Client:
    """Signed in, with a scope chosen; and this process knows its content types."""
    reader = Client()
    reader.force_login(person)
    reader.get(reverse("executions"))
    ContentType.objects.get_for_models(*apps.get_models())
    return reader


def delay_heartbeats() -> None:
    """Move heartbeats and creations far away, so that no status changes during the test."""
    day = timedelta(days=1)
    # A delegate that has not come for some time is asked after its likely causes.
    Delegate.objects.update(created_at=timezone.now() - day)
    for instance in DelegateInstance.objects.all():
        heartbeat_at = timezone.now() + (day if instance.delegate_id % 2 else -day)
        DelegateInstance.objects.filter(pk=instance.pk).update(last_heartbeat_at=heartbeat_at)
    for number, cluster in enumerate(SyncedCluster.objects.order_by("pk")):
        synced = timezone.now() + (day if number % 2 else -day)
        SyncedCluster.objects.filter(pk=cluster.pk).update(synced_at=synced)


def test_no_address_asks_the_database_more_often_when_there_is_more(project: Scope, admin: User):
    world = make_world(project, admin, admin)
    complete(world)
    reader, tested = build_warm_client(admin), list(addresses(world))
    copy_newest_rows(FEW)
    delay_heartbeats()
    few = {address.name: measure_queries(reader, address) for address in tested}
    copy_newest_rows(MANY)
    delay_heartbeats()
    many = {address.name: measure_queries(reader, address) for address in tested}
    for address in tested:
        if many[address.name][1] > few[address.name][1]:
            # What is noted once a minute may have come due between the two.
            many[address.name] = measure_queries(reader, address)
    assert {name: status for name, (status, _) in many.items()} == {a.name: a.status for a in tested}
    grown = {name: f"{few[name][1]} -> {count}" for name, (_, count) in many.items() if count > few[name][1]}
    assert grown == {}


def test_a_new_address_needs_something_to_show(project: Scope, admin: User, monkeypatch: pytest.MonkeyPatch):
    world = make_world(project, admin, admin)
    monkeypatch.delitem(ROWS, "pipelines")
    with pytest.raises(NoCaseError, match="pipelines has no row"):
        list(addresses(world))


def test_a_table_without_a_row_cannot_grow_unnoticed(account: Scope):
    with pytest.raises(LookupError, match="make one in tests/fixtures/row_copies.py"):
        copy_newest_rows(FEW)
