"""A worker that dies around a request: what may have been sent is never sent twice."""

import os

import pytest

from deployments.journal import runtime
from tests.deployments.engine.conftest import Write
from tests.fixtures.engine_driver import Drive
from tests.fixtures.worker_crashes import KILLED, run_in_fork
from tests.steps.kinds.conftest import Site
from tests.steps.kinds.test_http import http_text

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("place", "request_count", "code"),
    [
        ("call.before_sent", 1, None),
        ("call.sent", 0, "NO_ANSWER"),
        ("call.answered", 1, "NO_ANSWER"),
    ],
)
def test_a_request_that_may_have_been_sent_is_not_sent_again(
    write: Write, drive: Drive, site: Site, place: str, request_count: int, code: str | None
) -> None:
    execution = write(http_text(site.url, "method: POST")).start()

    def die(name: str) -> None:
        if name == place:
            os._exit(KILLED)

    def doomed() -> None:
        runtime.set_hook(die)
        drive.until_over(execution)

    try:
        assert run_in_fork(doomed) == KILLED
    finally:
        runtime.set_hook(None)
    drive.clock.move(61)
    drive.until_over(execution)
    assert (execution.failure or {}).get("code") == code
    assert execution.status == ("FAILED" if code else "SUCCESS")
    assert len(site.requests) == request_count
