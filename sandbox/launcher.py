"""Launcher that runs a container's command and stops it when the sandbox stops.

It runs as a script of Python without site packages, so that a container needs little more memory than its
program.
"""

import os
import signal
import subprocess
import sys
from threading import Thread


def _stop_with_sandbox() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    """Return the exit code of the command in the format of a container runtime: 128 plus the signal."""
    # The whole group is terminated, and this process stays to report the exit code. A handler is not
    # inherited, unlike an ignored signal.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    Thread(target=_stop_with_sandbox, daemon=True).start()
    try:
        process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)  # noqa: S603
    except OSError as exc:
        sys.stderr.write(f"{sys.argv[1]}: {exc.strerror}\n")
        return 127
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    os._exit(main())
