"""The threads of a worker that read event queues go on after each error."""

import threading
from collections.abc import Iterator

import pytest

from delegates.event_queues import threads
from delegates.event_queues.threads import QueueReaders


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Iterator[QueueReaders]:
    """Readers that search often, on a database without queues."""
    monkeypatch.setattr(threads, "SEARCH_SECONDS", 0.01)
    readers = QueueReaders()
    yield readers
    readers.stop()


def test_a_search_that_fails_for_a_bug_is_followed_by_the_next(
    readers: QueueReaders, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    searches, is_repeated = 0, threading.Event()

    def fail_once(now: object) -> list[int]:
        nonlocal searches
        searches += 1
        if searches == 1:
            raise KeyError("a bug of the search")
        is_repeated.set()
        return []

    monkeypatch.setattr(threads, "get_database_time", lambda: None)
    monkeypatch.setattr(threads, "list_free_queues", fail_once)
    for name in ("start_delegate_reads", "record_unread_queues"):
        monkeypatch.setattr(threads, name, lambda now: None)
    readers.start()
    assert is_repeated.wait(5)
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "event queues failed" in record.getMessage()
    assert record.exc_info is not None
