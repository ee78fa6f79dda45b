"""Limits agree with each other, with the framework, and with the programs that are started."""

from pathlib import Path

from django.conf import settings

from guards.limits import LIMITS, REQUESTS_PER_MINUTE, REQUESTS_PER_TEN_SECONDS

ROOT = Path(__file__).resolve().parents[2]


def test_the_burst_is_what_ten_seconds_of_a_minute_hold() -> None:
    assert REQUESTS_PER_TEN_SECONDS * 6 == REQUESTS_PER_MINUTE


def test_the_framework_keeps_the_same_limits() -> None:
    assert LIMITS["BODY_BYTES"] == settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    assert LIMITS["FORM_FIELDS"] == settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
    assert LIMITS["FORM_FILES"] == settings.DATA_UPLOAD_MAX_NUMBER_FILES


def test_both_ways_of_starting_the_web_server_limit_messages_alike() -> None:
    limit = f"{int(LIMITS['SOCKET_BYTES'])}"
    assert f'"--ws-max-size", "{limit}"' in (ROOT / "ops/supervision/programs.py").read_text()
    assert f"--ws-max-size {limit}" in (ROOT / "ops/role.sh").read_text()
