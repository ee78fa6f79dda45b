"""How the git program is run: what it prints is read by threads that must not outlive its pipes."""

import os
import threading
import time
from pathlib import Path

import pytest

from delegates.agent.executors.git_client import GitProgram, GitStopped
from delegates.agent.isolation import Isolation, IsolationLevel, open_workspace
from tests.delegates.agent.held_tasks import create_task

FLOOD = "#!/bin/sh\nwhile :; do head -c 100000 /dev/zero; sleep 0.01; done\n"
TRIES = 15


def test_git_that_is_stopped_while_it_prints_breaks_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "git"
    program.write_text(FLOOD)
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    # The agent ends with the first thread that breaks, and every task with it.
    broken: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda error_args: broken.append(error_args.exc_value))
    stop_event = threading.Event()
    threads = [threading.Thread(target=_work_until, args=(stop_event,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(TRIES):
            with open_workspace(Isolation(IsolationLevel.NONE)) as workspace:
                git = GitProgram(create_task("git", {}), workspace, environment, [], time.monotonic() + 0.1)
                with pytest.raises(GitStopped):
                    git.run(workspace.create_folder("repository"), "fetch", may_be_cut=True)
    finally:
        stop_event.set()
        for thread in threads:
            thread.join()
    assert broken == []


def _work_until(stop_event: threading.Event) -> None:
    """Keep the interpreter busy, as other tasks do."""
    while not stop_event.is_set():
        sum(range(1000))
