"""A worker that dies, as by kill -9, where it first passes a failpoint for which a file lies in DEATHS."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from celery.__main__ import main

from deployments.journal.runtime import set_hook


def _die(name: str) -> None:
    with suppress(FileNotFoundError):
        (Path(os.environ["DEATHS"]) / name).unlink()
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    set_hook(_die)
    sys.exit(main())
