"""What tasks leave is deleted, whatever they built to keep it or to have something else deleted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from delegates.agent.executors import ExecutorContext, execute_task
from delegates.agent.isolation import Isolation, IsolationLevel
from delegates.agent.isolation.users import RANGES, remove_user_files
from tests.delegates.agent.held_tasks import MemoryLog, create_task, open_to_all_users
from tests.delegates.agent.test_isolation import needs_root, require_level

# Deeper than the stack of Python.
DIG = "umask 0; mkdir -p deep-{mark}/$(printf 'a/%.0s' $(seq 1500))"
# Exchanges a folder and a link for as long as it runs (renameat2 with RENAME_EXCHANGE).
SWAP = """
import ctypes, os, sys
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
exchange = ctypes.CDLL(None).renameat2
print("began", flush=True)
while True:
    exchange(-100, sys.argv[2].encode(), -100, sys.argv[3].encode(), 2)
"""


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_a_tree_that_is_deeper_than_the_stack_is_deleted_and_breaks_no_task(
    level: IsolationLevel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_level(level) if level is not IsolationLevel.NONE else None
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    open_to_all_users(tmp_path)
    mark = os.urandom(6).hex()
    # Where /tmp is common to all tasks it is swept before and after each of them.
    folders = ["$HOME", "/tmp"] if level is IsolationLevel.USERS else ["$HOME"]
    for folder in folders:
        for script in (f"cd {folder}; {DIG.format(mark=mark)}", "echo second"):
            result = execute_task(create_task("shell", {"script": script}), build_context(level))
            assert result.status == "SUCCEEDED", result
    assert list(tmp_path.iterdir()) == []
    assert not Path(f"/tmp/deep-{mark}").exists()


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_folders_that_a_task_has_locked_are_deleted(
    level: IsolationLevel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_level(level) if level is not IsolationLevel.NONE else None
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    open_to_all_users(tmp_path)
    script = "mkdir -p ~/a/b ~/c; touch ~/a/b/file; ln -s / ~/c/link; chmod 0 ~/a/b ~/a ~/c"
    assert execute_task(create_task("shell", {"script": script}), build_context(level)).status == "SUCCEEDED"
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_a_folder_that_is_swapped_for_a_link_leads_no_deletion_elsewhere(tmp_path: Path) -> None:
    names = [f"file-{number}" for number in range(40)]
    shared_folder, outside_folder = tmp_path / "shared", tmp_path / "kept"
    target_folder, link = shared_folder / "of-another" / "real", shared_folder / "of-another" / "link"
    target_folder.mkdir(parents=True)
    outside_folder.mkdir()
    for name in names:
        (outside_folder / name).write_text("kept")
    link.symlink_to(outside_folder)
    user, other_user = RANGES[0][:2]
    open_to_all_users(tmp_path)
    for folder in (shared_folder, shared_folder / "of-another", target_folder):
        folder.chmod(0o777)
    os.chown(shared_folder / "of-another", other_user, other_user)
    os.chown(target_folder, other_user, other_user)
    command = [sys.executable, "-c", SWAP, str(other_user), str(target_folder), str(link)]
    descriptor = os.open(target_folder, os.O_RDONLY | os.O_DIRECTORY)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapper:
        try:
            assert swapper.stdout is not None
            assert swapper.stdout.readline() == b"began\n"
            for _ in range(30):
                for name in names:
                    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
                    os.chown(name, user, user, dir_fd=descriptor)
                remove_user_files(user, (str(shared_folder),))
        finally:
            swapper.kill()
    os.close(descriptor)
    assert sorted(path.name for path in outside_folder.iterdir()) == sorted(names)


def build_context(level: IsolationLevel) -> ExecutorContext:
    """Build the context of a task at one isolation level."""
    return ExecutorContext(MemoryLog(), isolation=Isolation(level))
