"""Lines of the process log: whole, with their fields, without secrets, whatever the text."""

import json
import logging
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.log_lines import (
    LineFormatter,
    bind_log_fields,
    get_propagated_fields,
    parse_propagated_fields,
    replace_log_fields,
)

SECRET = "tok-9f8e7d6c5b4a"


@pytest.fixture(autouse=True)
def _no_fields() -> Iterator[None]:
    yield
    replace_log_fields({})


def build_record(text: str, *args: object, **fields: object) -> logging.LogRecord:
    record = logging.LogRecord("slipway.test", logging.INFO, __file__, 1, text, args, None)
    record.__dict__.update(fields)
    return record


def format_text(record: logging.LogRecord) -> str:
    return LineFormatter("text", [SECRET]).format(record)


def format_json(record: logging.LogRecord) -> dict[str, object]:
    line = LineFormatter("json", [SECRET]).format(record)
    assert line.isascii()
    assert len(line.splitlines()) == 1
    fields: dict[str, object] = json.loads(line)
    return fields


def test_a_json_line_has_time_level_logger_fields_and_message() -> None:
    with bind_log_fields(request_id="r-1", execution="e-1", step=None):
        fields = format_json(build_record("%s changed", "Step", status="RUNNING", duration_ms=7))

    assert str(fields.pop("timestamp")).endswith("Z")
    assert fields == {
        "event": "Step changed",
        "level": "info",
        "logger": "slipway.test",
        "thread": "MainThread",
        "request_id": "r-1",
        "execution": "e-1",
        "status": "RUNNING",
        "duration_ms": 7,
    }


def test_a_text_line_has_its_fields_before_the_message() -> None:
    with bind_log_fields(execution="e-1"):
        line = format_text(build_record("Step changed", status="RUNNING", kind='a "b" c'))

    assert line.split(" ", 1)[1] == (
        """INFO [slipway.test] execution=e-1 status=RUNNING kind="a 'b' c" Step changed"""
    )


def test_fields_end_with_their_block() -> None:
    with bind_log_fields(execution="e-1"):
        pass
    assert "execution" not in format_json(build_record("later"))


def test_a_record_with_other_attributes_shows_only_known_fields() -> None:
    assert "request" not in format_json(build_record("x", request="GET /join/token/"))


@pytest.mark.parametrize("style", ["json", "text"])
@given(text=st.text(), value=st.text(min_size=1))
def test_no_text_breaks_a_line(style: str, text: str, value: str) -> None:
    form = LineFormatter("json" if style == "json" else "text")
    line = form.format(build_record("%s", text, kind=value))
    assert len(line.splitlines()) == 1
    assert all(ord(character) >= 32 for character in line)


def test_lines_of_an_exception_are_indented_in_text_and_one_field_in_json() -> None:
    try:
        raise ValueError(f"first\n2026-11-26T00:00:00Z INFO [slipway] forged {SECRET}")
    except ValueError:
        record = build_record("It failed")
        record.exc_info = sys.exc_info()

    head, *more = format_text(record).splitlines()
    assert head.endswith("It failed")
    assert all(line.startswith("    ") for line in more)
    assert any("forged •••" in line for line in more)
    assert "forged •••" in str(format_json(record)["exception"])


def test_known_secrets_are_redacted_in_messages_and_fields() -> None:
    record = build_record("token %s", SECRET, kind=f"with {SECRET}")
    assert SECRET not in format_text(record)
    assert format_json(record)["event"] == "token •••"
    assert format_json(record)["kind"] == "with •••"


def test_a_message_of_megabytes_is_truncated() -> None:
    assert len(format_text(build_record("x" * 1_000_000))) < 17_000


def test_only_known_fields_are_handed_over() -> None:
    with bind_log_fields(request_id="r-1", execution="e-1", celery_task="t-1"):
        assert get_propagated_fields() == {"request_id": "r-1", "execution": "e-1"}


@pytest.mark.parametrize(
    "value", [None, "text", ["execution"], {"execution": 1}, {"execution": "x" * 201}, {"level": "x"}]
)
def test_what_another_process_sends_is_checked(value: object) -> None:
    assert parse_propagated_fields(value) == {}
