"""Storing: lines are cleaned, masked, numbered, cut and packed together."""

import pytest
from django.db import transaction

from deployments.log import NewLogLine, compact_chunks, iterate_lines, read_lines, store_lines
from deployments.models import Execution, LogChunk
from guards.masks import SecretMask
from guards.text import MAX_LINE_BYTES
from tests.deployments.log.conftest import AT, build_lines

pytestmark = pytest.mark.django_db


def list_texts(execution: Execution) -> list[str]:
    return [line["text"] for line in iterate_lines(execution.pk)]


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("plain é \U0001f600", "plain é \U0001f600"),
        ("tab\tand \x1b[31mred\x1b[0m", "tab\tand \x1b[31mred\x1b[0m"),
        ("nul\x00 bell\x07 del\x7f c1\x9b", "nul\ufffd bell\ufffd del\ufffd c1\ufffd"),
        ("two\nlines", "two lines"),
        ("half \ud800 pair", "half \ufffd pair"),
    ],
)
def test_a_line_keeps_its_colours_and_loses_what_breaks_things(
    execution: Execution, text: str, expected_text: str
):
    store_lines(execution.pk, build_lines(text))
    assert list_texts(execution) == [expected_text]


def test_a_line_that_is_too_long_is_cut_and_says_so(execution: Execution):
    store_lines(execution.pk, build_lines("é" * MAX_LINE_BYTES))
    (text,) = list_texts(execution)
    assert text.endswith(f" … (cut, {MAX_LINE_BYTES} characters)")
    assert len(text.encode()) < MAX_LINE_BYTES + 50


def test_a_secret_at_the_place_of_the_cut_leaves_no_half(execution: Execution):
    secret = "wonderful-secret-value"
    store_lines(execution.pk, build_lines("x" * (MAX_LINE_BYTES - 10) + secret), mask=SecretMask([secret]))
    assert "wonderful" not in list_texts(execution)[0]


def test_numbers_follow_on_each_other_over_commits(execution: Execution):
    for start in range(0, 30, 3):
        store_lines(execution.pk, build_lines(*(f"line {start + index}" for index in range(3))))
    lines = read_lines(execution.pk)
    assert [line["number"] for line in lines] == list(range(1, 31))
    assert [line["text"] for line in lines] == [f"line {index}" for index in range(30)]
    assert lines[0]["at"] == AT.isoformat()


def test_who_said_a_line_is_kept(execution: Execution):
    store_lines(
        execution.pk,
        [NewLogLine(AT, None, "s", "u", "event", "e"), NewLogLine(AT, None, "s", "u", "info", "i")],
    )
    assert [line["origin"] for line in read_lines(execution.pk)] == ["aws", "slipway"]


def test_small_chunks_are_packed_while_the_log_grows(execution: Execution):
    for start in range(0, 2100, 10):
        store_lines(execution.pk, build_lines(*(f"line {start + index}" for index in range(10))))
    assert LogChunk.objects.filter(execution=execution).count() < 20
    assert list_texts(execution) == [f"line {index}" for index in range(2100)]

    compact_chunks(execution.pk)
    assert LogChunk.objects.filter(execution=execution).count() <= 4
    assert not LogChunk.objects.filter(execution=execution, is_packed=False).exists()
    assert list_texts(execution) == [f"line {index}" for index in range(2100)]


def test_what_a_commit_takes_back_was_never_there(execution: Execution):
    store_lines(execution.pk, build_lines("kept"))
    with transaction.atomic():
        store_lines(execution.pk, build_lines("gone"))
        transaction.set_rollback(True)
    store_lines(execution.pk, build_lines("after"))
    assert [(line["number"], line["text"]) for line in read_lines(execution.pk)] == [
        (1, "kept"),
        (2, "after"),
    ]
