"""The line of a log at a time is found without reading the whole log."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from deployments.log import line_times, store_lines
from deployments.log.line_times import LineIndex, LineReference, LineRequest
from deployments.models import Execution, LogChunk
from tests.deployments.log.conftest import AT, build_lines

pytestmark = pytest.mark.django_db


def at(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


def write_log(execution: Execution, count: int, *, commit_size: int = 100, step: str = "deploy") -> None:
    """Write one line for each second, in commits of some lines."""
    lines = [replace(build_lines(f"line {number}", step=step)[0], at=at(number)) for number in range(count)]
    for first in range(0, count, commit_size):
        store_lines(execution.pk, lines[first : first + commit_size])


def find(execution: Execution, request: LineRequest) -> LineReference | None:
    index = LineIndex(execution.pk)
    index.load_moments([request])
    return index.find_line(request)


def test_the_first_line_at_or_after_a_time_is_found_in_any_block(execution: Execution) -> None:
    write_log(execution, 3_000)
    assert LogChunk.objects.filter(execution=execution).count() > 1
    for second in (0, 1, 999, 1000, 1001, 2998.5, 2999):
        number = int(second if second == int(second) else second + 1) + 1
        assert find(execution, LineRequest(at(second))) == LineReference(number, "deploy")
    assert find(execution, LineRequest(at(-5))) == LineReference(1, "deploy")
    assert find(execution, LineRequest(at(9_999))) == LineReference(3_000, "deploy"), "the last one before"


def test_step_and_text_choose_among_lines_of_one_time(execution: Execution) -> None:
    lines = [*build_lines("one", step="a"), *build_lines("# AWS Event: now two", "three", step="b")]
    store_lines(execution.pk, lines)
    assert find(execution, LineRequest(AT, step="b")) == LineReference(2, "b")
    assert find(execution, LineRequest(AT, text="three")) == LineReference(3, "b")
    assert find(execution, LineRequest(AT, text="not there")) == LineReference(1, "a")


def test_an_empty_log_has_no_line(execution: Execution) -> None:
    assert find(execution, LineRequest(AT)) is None


def test_many_moments_take_two_queries_and_a_limited_number_of_blocks(
    execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_times, "MOST_BLOCKS", 2)
    write_log(execution, 6_000, commit_size=1_000)
    requests = [LineRequest(at(second)) for second in range(0, 6_000, 50)]
    with CaptureQueriesContext(connection) as queries:
        index = LineIndex(execution.pk)
        index.load_moments(requests)
        references = [index.find_line(request) for request in requests]
    assert len(queries) == 2
    assert references[1] == LineReference(51, "deploy")
    # Beyond the limit it is the first line of the block.
    assert references[-1] is not None
    assert references[-1].number in {chunk.first for chunk in LogChunk.objects.all()}
