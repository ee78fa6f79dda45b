"""The collector of Python leaves the web process alone with what it has loaded at its start."""

import gc
import os
import subprocess
import sys
import weakref

from web.http.gc_tuning import collect_garbage

HOLES = """
import config.asgi
from benchmarks.soak.memory import read_allocated
from web.http.gc_tuning import collect_garbage
import os

blocks = [bytes(4000) for _ in range(16_000)]
in_use = blocks[-1]
before = read_allocated(os.getpid())
blocks.append(blocks)
del blocks
for _ in range(12):
    collect_garbage()
print(before - read_allocated(os.getpid()))
"""
ROUTES = """
import gc, config.asgi
from django.urls import reverse

before = len(gc.get_objects())
reverse("docs")
print(len(gc.get_objects()) - before)
"""
QUESTION = "import gc, config.asgi; print(gc.get_freeze_count(), gc.isenabled())"


def test_what_the_web_server_has_loaded_is_not_looked_through_again():
    frozen, is_enabled = run(QUESTION).split()
    assert int(frozen) > 50_000
    assert is_enabled == "True", "the collector rests during the imports only"


def test_the_table_of_all_routes_is_part_of_it() -> None:
    assert int(run(ROUTES)) < 100


def test_the_memory_of_old_objects_goes_back_to_the_system() -> None:
    assert float(run(HOLES)) > 50 * 1024


def run(program: str) -> str:
    """Run a program with the settings of tests, and return what it prints."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_what_requests_leave_in_old_cycles_is_collected() -> None:
    class Node:
        pass

    node = Node()
    node.self = node  # type: ignore[attr-defined]
    left = weakref.ref(node)
    gc.disable()
    try:
        gc.collect()
        del node
        for _ in range(15):
            collect_garbage()
        assert left() is None
    finally:
        gc.enable()
