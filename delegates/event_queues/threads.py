"""Threads of a worker that read event queues."""

import logging
import threading
from typing import Final
from uuid import uuid4

from django.db import connection

from delegates.event_queues.delegate_reads import start_delegate_reads
from delegates.event_queues.readers import QueueReader
from delegates.event_queues.records import list_free_queues, record_unread_queues
from web.clock import get_database_time
from web.http.outages import is_outage

# How often a worker looks for queues that nobody reads.
SEARCH_SECONDS: Final = 2.0
# After a failure of AWS or the database.
PAUSE_SECONDS: Final = 5.0
# Each takes a thread and, for moments, a connection to the database.
MOST_QUEUES: Final = 50
STOP_SECONDS: Final = 2.0

logger = logging.getLogger(__name__)


class QueueReaders:
    """One thread that looks for queues without a reader, and one for each queue that it reads.

    Delegates read the queues of connectors through them; the first thread only queues their tasks.

    They belong to the main process of a worker, as a long poll would occupy one of its children.
    """

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._threads: dict[int, threading.Thread] = {}
        self._search_thread = threading.Thread(target=self._search, name="event-queues", daemon=True)

    def start(self) -> None:
        """Start to look for queues."""
        self._search_thread.start()

    def stop(self) -> None:
        """End the threads; a poll that has not ended in time is left to its lease."""
        self._stopped.set()
        self._search_thread.join(STOP_SECONDS)

    def _search(self) -> None:
        while not self._stopped.wait(SEARCH_SECONDS):
            try:
                self._start_readers()
                start_delegate_reads(get_database_time())
                record_unread_queues(get_database_time())
            except Exception as error:
                if is_outage(error):
                    logger.warning("No event queue was looked for; the next search does: %s", error)
                else:
                    # No other thread of this worker searches, so a bug may not end this one either.
                    logger.exception("The search for event queues failed; the next one follows")
            finally:
                connection.close()

    def _start_readers(self) -> None:
        self._threads = {pk: thread for pk, thread in self._threads.items() if thread.is_alive()}
        for pk in list_free_queues(get_database_time()):
            if pk in self._threads or len(self._threads) >= MOST_QUEUES:
                continue
            self._threads[pk] = threading.Thread(
                target=self._read, args=(pk,), name=f"event-queue-{pk}", daemon=True
            )
            self._threads[pk].start()

    def _read(self, pk: int) -> None:
        """Read one queue until it has another reader, or reading fails."""
        reader = QueueReader(pk, uuid4().hex)
        try:
            if not reader.claim():
                return
            while not self._stopped.is_set() and reader.read():
                pass
            self._stopped.wait(PAUSE_SECONDS)
            reader.release()
        except Exception as error:
            if is_outage(error):
                logger.warning("An event queue was not read; it is after its lease: %s", error)
            else:
                logger.exception("The event queue %s was not read; it is after its lease", pk)
        finally:
            connection.close()
