"""The collector of Python leaves the web process alone with what it has loaded at its start."""

import os
import subprocess
import sys

QUESTION = "import gc, config.asgi; print(gc.get_freeze_count())"


def test_what_the_web_server_has_loaded_is_not_looked_through_again():
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    answer = subprocess.run(
        [sys.executable, "-c", QUESTION], env=environment, capture_output=True, text=True, check=True
    )
    assert int(answer.stdout) > 50_000
