"""Log lines during an outage of a secret manager: kept encrypted, and shown once they can be redacted."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from connectors.models import Secret
from connectors.secret_values import clear_cached_values
from delegates.models import DelegateInstance, DelegateTask
from delegates.protocol.logs import append_task_lines
from deployments.journal.aws_access import CALL_OWNER
from deployments.journal.hidden_lines import show_hidden_lines
from deployments.journal.secret_values import build_stage_mask
from deployments.log import NewLogLine, read_lines, store_lines
from deployments.log import hidden as hidden_log
from deployments.models import AwsCall, Execution, HiddenLogLines
from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
AT = datetime(2026, 11, 26, 12, tzinfo=UTC)
SECRET = planted("wonderful-secret-value")


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


def lose_manager(world: World) -> None:
    """Make the secret of the connector a reference to a manager that does not answer."""
    clear_cached_values()
    Secret.objects.filter(pk=world.secret.pk).update(
        kind="Reference",
        value="",
        manager="AwsSecretsManager",
        manager_connector=world.connector,
        reference_path="prod/key",
    )


def find_manager(world: World) -> None:
    world.secret.refresh_from_db()
    none: dict[str, Any] = {
        "manager": "",
        "manager_connector": None,
        "reference_path": "",
        "kind": "Text",
        "value": SECRET,
    }
    for name, value in none.items():
        setattr(world.secret, name, value)
    world.secret.save()
    clear_cached_values()


def log_line(world: World, text: str) -> None:
    stage = world.execution.stages.get()
    mask = build_stage_mask(stage)
    store_lines(world.execution.pk, [NewLogLine(AT, None, "deploy", "Deploy", "info", text)], mask=mask)


def read_texts(execution: Execution) -> list[str]:
    return [line["text"] for line in read_lines(execution.pk)]


def make_due() -> datetime:
    now = datetime.now(UTC) + timedelta(hours=2)
    HiddenLogLines.objects.update(due_at=now - timedelta(seconds=1))
    return now


def test_hidden_lines_are_shown_redacted_once_the_secret_can_be_read(world: World) -> None:
    before = read_texts(world.execution)
    lose_manager(world)
    log_line(world, f"password {SECRET} and more")
    log_line(world, " ")
    [hidden, blank] = read_texts(world.execution)[len(before) :]
    assert hidden.startswith("(hidden, because a secret cannot be read: ")
    assert blank == " " or not blank.strip()
    with connection.cursor() as cursor:
        cursor.execute("SELECT lines FROM deployments_hiddenloglines")
        assert SECRET not in str(cursor.fetchall())

    assert show_hidden_lines(make_due()) == 0
    assert len(read_texts(world.execution)) == len(before) + 2

    find_manager(world)
    now = make_due()
    assert show_hidden_lines(now) == 1
    assert show_hidden_lines(now) == 0
    note, shown = read_texts(world.execution)[-2:]
    assert note == "The secrets can be read again. These lines, from 12:00:00 on, were hidden above:"
    assert shown == "password ••• and more"
    assert read_lines(world.execution.pk)[-1]["at"] == AT.isoformat()
    assert not HiddenLogLines.objects.exists()


def test_lines_of_a_delegate_are_kept_with_the_secrets_of_their_call(world: World) -> None:
    step = world.execution.stages.get().steps.order_by("position").first()
    assert step is not None
    action = step.actions.first()
    assert action is not None
    call = AwsCall.objects.create(
        execution=world.execution,
        step=step,
        action=action,
        attempt=1,
        phase="start",
        number=9,
        service="delegate",
        operation="RunScript",
        is_write=True,
        params_hash="",
        parameters='{"secrets": {"environment.TOKEN": "token"}}',
        planned_at=AT,
        sent_at=AT,
    )
    task, instance = DelegateTask.objects.first(), DelegateInstance.objects.first()
    assert task is not None
    assert instance is not None
    task.owner, task.owner_ref, task.status = CALL_OWNER, str(call.pk), DelegateTask.Status.STARTED
    task.instance, task.fence, task.next_sequence = instance, 1, 0
    task.save()
    task.log_chunks.all().delete()
    lose_manager(world)
    append_task_lines(instance, task.pk, 1, 0, [{"t": 0, "level": "WARN", "text": f"out {SECRET}"}])
    assert SECRET not in task.log_chunks.get().lines
    find_manager(world)
    # The secret of the call was deleted: nothing says what to redact.
    assert show_hidden_lines(make_due()) == 0
    Secret.objects.create(scope=world.scope, identifier="token", name="Token", value=planted("of-the-call"))
    assert show_hidden_lines(make_due()) == 1
    last = read_lines(world.execution.pk)[-1]
    assert (last["text"], last["step"], last["level"]) == ("out •••", step.identifier, "warning")
    assert last["origin"] == "container"


def test_placeholders_are_not_kept_and_lines_above_the_limit_are_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_manager(world)
    log_line(world, "(hidden, because a secret cannot be read: by another mask)")
    assert not HiddenLogLines.objects.exists()
    monkeypatch.setattr(hidden_log, "HIDDEN_LOG_BYTES", 300)
    for number in range(4):
        log_line(world, f"line {number}" + "x" * 80)
    assert 1 <= HiddenLogLines.objects.count() < 4
    find_manager(world)
    show_hidden_lines(make_due())
    assert any("further lines stay hidden" in text for text in read_texts(world.execution))
