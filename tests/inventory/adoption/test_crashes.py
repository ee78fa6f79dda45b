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
from tests.fixtures.worker_crashes import KILLED, run_in_fork
from tests.inventory.adoption.foreign_services import STATES, create_foreign_service, read_adoption
from tests.inventory.drift.scans import sync_cluster

pytestmark = pytest.mark.django_db(transaction=True)

# The last write of each table that an adoption changes, and what that write is.
CRASH_POINTS = (
    ("INSERT", Service),
    ("INSERT", Pipeline),
    ("UPDATE", Adoption),
    ("UPDATE", EcsServiceRecord),
    ("INSERT", AuditEntry),
)


class CrashAfterStatement:
    """Ends the process right after a statement, as a power cut would."""

    def __init__(self, verb: str, table: str) -> None:
        self.begins = f'{verb} {"INTO " if verb == "INSERT" else ""}"{table}"'

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith(self.begins):
            os._exit(KILLED)
        return result


def crash_after(operation: Any, verb: str, model: Any) -> None:
    def run_until_crash() -> None:
        with connection.execute_wrapper(CrashAfterStatement(verb, model._meta.db_table)):
            operation()

    assert run_in_fork(run_until_crash) == KILLED


def count_rows() -> dict[str, int]:
    actions = AuditEntry.objects.filter(action__in=("adoption.adopt", "adoption.undo")).count()
    return {"services": Service.objects.count(), "pipelines": Pipeline.objects.count(), "told": actions}


def test_it_is_all_or_nothing_wherever_a_process_dies(drive: Drive) -> None:
    admin = User.objects.get(username="admin")
    create_foreign_service(drive, "legacy")
    sync_cluster()
    adoption = read_adoption("legacy")
    before = count_rows()
    spec = AdoptionSpec("taken", "Taken over")
    for verb, model in CRASH_POINTS:
        crash_after(partial(adopt_service, actor=admin, adoption=adoption, spec=spec), verb, model)
        assert count_rows() == before, (verb, model)
        adoption = Adoption.objects.get(pk=adoption.pk)
        assert (adoption.state, adoption.reserved_arn, adoption.service) == (STATES.READY, "", None)
        assert EcsServiceRecord.objects.get(name="legacy").service is None
    adopted = adopt_service(actor=admin, adoption=adoption, spec=spec)
    assert adopted.state == STATES.ADOPTED

    counts_before = count_rows()
    for verb, model in (("UPDATE", Adoption), ("UPDATE", EcsServiceRecord), ("INSERT", AuditEntry)):
        crash_after(partial(undo_adoption, actor=admin, adoption=adopted), verb, model)
        assert count_rows() == counts_before, (verb, model)
        adopted = Adoption.objects.get(pk=adopted.pk)
        assert adopted.service is not None
    undo_adoption(actor=admin, adoption=adopted)
    assert count_rows() == {**before, "told": 2}
