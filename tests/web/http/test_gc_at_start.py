"""The collector of Python leaves the web process alone with what it has loaded at its start."""

import gc
import os
import subprocess
import sys
import weakref
from typing import NamedTuple

import pytest

from web.http.gc_tuning import collect_garbage

# Prints its figures in the order of `StartedWeb`.
PROGRAM = """
import gc, os
import config.asgi
from benchmarks.soak.memory import read_allocated
from django.urls import reverse
from web.http.gc_tuning import collect_garbage

print(gc.get_freeze_count(), int(gc.isenabled()))
objects = len(gc.get_objects())
reverse("docs")
print(len(gc.get_objects()) - objects)

blocks = [bytes(4000) for _ in range(16_000)]
in_use = blocks[-1]
before = read_allocated(os.getpid())
blocks.append(blocks)
del blocks
for _ in range(12):
    collect_garbage()
print(int(before - read_allocated(os.getpid())))
"""


class StartedWeb(NamedTuple):
    """What a web process has after its imports, and what it gives back."""

    frozen_objects: int
    is_collecting: int
    objects_by_first_route: int
    freed_kib: int


@pytest.fixture(scope="module")
def web() -> StartedWeb:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "-c", PROGRAM]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return StartedWeb(*map(int, run.stdout.split()))


def test_what_the_web_server_has_loaded_is_not_looked_through_again(web: StartedWeb) -> None:
    assert web.frozen_objects > 50_000
    assert web.is_collecting, "the collector rests during the imports only"


def test_the_table_of_all_routes_is_part_of_it(web: StartedWeb) -> None:
    assert web.objects_by_first_route < 100


def test_the_memory_of_old_objects_goes_back_to_the_system(web: StartedWeb) -> None:
    assert web.freed_kib > 50 * 1024


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
