"""A worker that dies, as by kill -9, where it first passes a failpoint for which a file lies in DEATHS."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import django
from celery.__main__ import main


def _die(name: str) -> None:
    with suppress(FileNotFoundError):
        (Path(os.environ["DEATHS"]) / name).unlink()
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    # The failpoints import models, which need the applications; the worker would load them only later.
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from deployments.journal.runtime import set_hook

    set_hook(_die)
    sys.exit(main())
