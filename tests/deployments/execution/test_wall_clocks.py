"""A server whose wall clock is ahead lets no execution wait until that time comes."""

from datetime import timedelta

import pytest
from django.utils import timezone

from deployments.engine.dispatch import claim_due_batches
from deployments.execution.operations import abort_execution, run_pipeline
from deployments.models import Execution
from pipelines.models import Pipeline
from tests.fixtures.engine_driver import Drive
from web.clock import get_database_time

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.only_on("postgresql", reason="SQLite has no clock of its own"),
]


def test_what_a_server_with_a_fast_clock_starts_or_wakes_is_due_at_once(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline.objects.get(identifier="rolling_demo")
    ahead = timezone.now() + timedelta(hours=1)
    monkeypatch.setattr(timezone, "now", lambda: ahead)
    execution = run_pipeline(actor=drive.deployer, pipeline=pipeline, artifact_tag="1.27")
    assert execution.due_at is not None
    assert execution.due_at <= get_database_time()
    assert execution.created_at <= get_database_time(), "it would count as later than those that follow"
    assert [execution.pk in batch.execution_ids for batch in claim_due_batches()] == [True]
    Execution.objects.filter(pk=execution.pk).update(due_at=ahead)
    abort_execution(actor=drive.deployer, execution=execution)
    execution.refresh_from_db()
    assert execution.due_at <= get_database_time()
