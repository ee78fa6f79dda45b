"""What a worker keeps in memory: nothing that only pages and the API need, and no lost connections."""

import gc
import subprocess
import sys
import weakref
from types import SimpleNamespace

import pytest
from django.urls import reverse
from kombu.asynchronous.timer import Timer

from config.celery import FREE_MEMORY_SECONDS, FreeMemory, app
from web.page_paths import PAGE_PATHS, get_page_path

# Of views, forms, sign-in and the description of the API.
UNUSED = (
    "config.urls",
    "django.test.client",
    "drf_spectacular.views",
    "flask",
    "jinja2",
    "jwt",
    "moto",
    "qrcode",
    "rest_framework.views",
)
PROGRAM = f"""
import sys
from config.celery import app
app.loader.import_default_modules()
print([name for name in {UNUSED!r} if name in sys.modules])
"""


def test_a_worker_loads_no_pages() -> None:
    process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


class LostConnection(Exception):
    """Error of a connection, which its own traceback keeps."""


def lose_connection() -> "weakref.ref[LostConnection]":
    try:
        raise LostConnection
    except LostConnection as error:
        kept = error
        return weakref.ref(kept)


def test_the_main_process_frees_the_connections_that_it_lost_every_minute() -> None:
    assert FreeMemory in app.steps["worker"]
    worker = SimpleNamespace(timer=Timer())
    step = FreeMemory(worker)
    gc.disable()
    try:
        connection = lose_connection()
        step.start(worker)
        (scheduled,) = worker.timer.queue
        assert connection() is not None
        worker.timer.apply_entry(scheduled.entry)
        assert connection() is None
    finally:
        gc.enable()
    assert FREE_MEMORY_SECONDS == 60
    step.stop(worker)
    assert all(entry.entry.canceled for entry in worker.timer.queue)


@pytest.mark.parametrize("name", PAGE_PATHS)
def test_a_page_has_the_path_that_messages_link_to(name: str) -> None:
    key = "0d5b4b4e-4c38-4bd7-9f86-5d8c3f0e7c11" if name == "execution" else 7
    assert get_page_path(name, key) == reverse(name, args=[key])
