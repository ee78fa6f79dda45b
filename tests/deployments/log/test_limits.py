"""Limits: the output of a container is cut off at a size, and the log says what it left out."""

import pytest

from connectors.models import Connector
from deployments.log import LineOrigin, NewLogLine, read_lines, storage, store_lines
from deployments.models import Execution, StageExecution, StepExecution
from guards.masks import SecretMask
from tests.deployments.log.conftest import AT

pytestmark = pytest.mark.django_db


@pytest.fixture
def step(execution: Execution) -> StepExecution:
    connector = Connector.objects.create(scope=execution.scope, identifier="aws", name="AWS", spec={})
    stage = StageExecution.objects.create(
        execution=execution, position=1, identifier="s", connector=connector
    )
    return StepExecution.objects.create(stage=stage, position=1, identifier="run", timeout_seconds=60)


def build_output(
    step: StepExecution, *texts: str, origin: LineOrigin = LineOrigin.CONTAINER
) -> list[NewLogLine]:
    return [NewLogLine(AT, step.pk, step.identifier, "Run", "info", text, origin) for text in texts]


def test_a_step_keeps_so_much_output_and_says_what_it_left_out(
    execution: Execution, step: StepExecution, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(storage, "MOST_BYTES_PER_STEP", 1024 * 1024)
    for _ in range(12):
        store_lines(execution.pk, build_output(step, *["x" * 1000] * 100))
    store_lines(execution.pk, build_output(step, "the very last line"))
    store_lines(execution.pk, build_output(step, "Task stopped", origin=LineOrigin.SLIPWAY))

    lines = read_lines(execution.pk, limit=2000)
    assert len(lines) == 1047 + 3
    limit, omission, own_line = lines[-3:]
    assert limit["text"].startswith("The output of this step is longer than 1 MiB")
    assert omission["text"] == "154 lines of output were not kept. The last one: the very last line"
    assert (limit["level"], omission["origin"]) == ("warning", "slipway")
    assert own_line["text"] == "Task stopped"


@pytest.mark.parametrize(("text", "kept"), [("abcd", 2), ("éé", 2), ("🦊", 2), ("", 10)])
def test_the_size_of_output_is_that_of_its_bytes_and_line_breaks(
    execution: Execution, step: StepExecution, text: str, kept: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(storage, "MOST_BYTES_PER_STEP", 10)
    store_lines(execution.pk, build_output(step, *[text] * 20))
    lines = read_lines(execution.pk)
    assert [line["text"] for line in lines[:-1]] == [text] * kept
    assert lines[-1]["text"].startswith("The output of this step is longer")


def test_what_slipway_says_is_never_left_out(
    execution: Execution, step: StepExecution, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(storage, "MOST_BYTES_PER_STEP", 10)
    for _ in range(5):
        store_lines(execution.pk, build_output(step, "x" * 100, origin=LineOrigin.SLIPWAY))
    assert len(read_lines(execution.pk)) == 5


def test_a_secret_in_a_line_that_is_left_out_is_not_kept_either(
    execution: Execution, step: StepExecution, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(storage, "MOST_BYTES_PER_STEP", 10)
    store_lines(
        execution.pk,
        build_output(step, "x" * 11, "a wonderful-secret-value b"),
        mask=SecretMask(["wonderful-secret-value"]),
    )
    step.refresh_from_db()
    assert step.log_last_dropped == "a ••• b"
