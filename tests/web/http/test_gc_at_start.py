"""The collector of Python leaves the web process alone with what it has loaded at its start."""

import gc
import os
import subprocess
import sys
import weakref

from web.http.gc_tuning import collect_garbage

QUESTION = "import gc, config.asgi; print(gc.get_freeze_count(), gc.isenabled())"


def test_what_the_web_server_has_loaded_is_not_looked_through_again():
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    answer = subprocess.run(
        [sys.executable, "-c", QUESTION], env=environment, capture_output=True, text=True, check=True
    )
    frozen, is_enabled = answer.stdout.split()
    assert int(frozen) > 50_000
    assert is_enabled == "True", "the collector rests during the imports only"


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
        for _ in range(150):
            collect_garbage()
        assert left() is None
    finally:
        gc.enable()
