"""A server that dies in the middle of an adoption leaves nothing of it, and it is done once more."""

import os
from functools import partial
from typing import Any

import pytest
from django.db import connection

from catalog.models import Service
from inventory.models.adoption import Adoption
from inventory.models.instances import EcsServiceRecord
from inventory.operations.adoption_undo import undo_adoption
from inventory.operations.adoptions import AdoptionSpec, adopt_service
from pipelines.models import Pipeline
from rbac.models import AuditEntry, User
from tests.fixtures.engine_driver import Drive
from tests.fixtures.worker_crashes import KILLED, in_a_fork
from tests.inventory.adoption.foreign_services import STATES, make, read
from tests.inventory.drift.scans import synced

pytestmark = pytest.mark.django_db(transaction=True)

# The last write of each table that an adoption changes, and what that write is.
PLACES = (
    ("INSERT", Service),
    ("INSERT", Pipeline),
    ("UPDATE", Adoption),
    ("UPDATE", EcsServiceRecord),
    ("INSERT", AuditEntry),
)


class Dying:
    """Ends the process right after a statement, as a power cut would."""

    def __init__(self, verb: str, table: str) -> None:
        self.begins = f'{verb} {"INTO " if verb == "INSERT" else ""}"{table}"'

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith(self.begins):
            os._exit(KILLED)
        return result


def dies(work: Any, verb: str, model: Any) -> None:
    def until_then() -> None:
        with connection.execute_wrapper(Dying(verb, model._meta.db_table)):
            work()

    assert in_a_fork(until_then) == KILLED


def counts() -> dict[str, int]:
    actions = AuditEntry.objects.filter(action__in=("adoption.adopt", "adoption.undo")).count()
    return {"services": Service.objects.count(), "pipelines": Pipeline.objects.count(), "told": actions}


def test_it_is_all_or_nothing_wherever_a_process_dies(drive: Drive) -> None:
    admin = User.objects.get(username="admin")
    make(drive, "legacy")
    synced()
    found = read("legacy")
    before = counts()
    spec = AdoptionSpec("taken", "Taken over")
    for verb, model in PLACES:
        dies(partial(adopt_service, actor=admin, adoption=found, spec=spec), verb, model)
        assert counts() == before, (verb, model)
        found = Adoption.objects.get(pk=found.pk)
        assert (found.state, found.reserved_arn, found.service) == (STATES.READY, "", None)
        assert EcsServiceRecord.objects.get(name="legacy").service is None
    done = adopt_service(actor=admin, adoption=found, spec=spec)
    assert done.state == STATES.ADOPTED

    made = counts()
    for verb, model in (("UPDATE", Adoption), ("UPDATE", EcsServiceRecord), ("INSERT", AuditEntry)):
        dies(partial(undo_adoption, actor=admin, adoption=done), verb, model)
        assert counts() == made, (verb, model)
        done = Adoption.objects.get(pk=done.pk)
        assert done.service is not None
    undo_adoption(actor=admin, adoption=done)
    assert counts() == {**before, "told": 2}
