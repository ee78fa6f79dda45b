"""An agent that dies, as by kill -9, when it first comes to the failpoint that DIES_AT names."""

import os
import signal
import sys

from delegates.agent.__main__ import main
from delegates.agent.task_runner import set_failpoint_hook


def _die(name: str, moment: str) -> None:
    if f"{name}:{moment}" == os.environ.get("DIES_AT"):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    set_failpoint_hook(_die)
    sys.exit(main())
