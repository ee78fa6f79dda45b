"""Tasks side by side: none sees, signals or outlives another, at each level that works here."""

import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from delegates.agent.executors import ExecutorContext, TaskResult, execute_task
from delegates.agent.isolation import Isolation, IsolationLevel, detect_isolation, end_process, open_workspace
from delegates.agent.isolation.users import RANGES, lease_user, remove_user_files
from delegates.agent.logs.spool import LogSpool
from tests.delegates.agent.held_tasks import (
    AS_ON_FARGATE,
    MemoryLog,
    choose_duration,
    create_task,
    get_error,
    list_sleepers,
)
from tests.fixtures.processes import ROOT, wait_until

ISOLATED_LEVELS = [level for level in IsolationLevel if level is not IsolationLevel.NONE]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
PRINT_LEVEL = "from delegates.agent.isolation import detect_isolation; print(detect_isolation().level)"
# Reads what it can of others; a mark is written in two parts, so that no look finds itself.
SEARCH_SCRIPT = """
for at in /proc/[0-9]*/environ; do
  if grep -q "$ONE$TWO" "$at" 2>/dev/null; then echo "reads $at"; fi
done
for at in "$FOLDER"/* /tmp/* /var/tmp/* /dev/shm/*; do
  if grep -qs "$ONE$TWO" "$at"; then echo "finds it in $at"; fi
done
kill -9 -1 2>/dev/null
echo looked
"""


class ScriptRun:
    """A script that runs in a thread."""

    def __init__(self, level: IsolationLevel, script: str, **environment: str) -> None:
        self.lines = MemoryLog()
        self.task = create_task("shell", {"script": script, "environment": environment})
        self.results: list[TaskResult] = []
        context = ExecutorContext(self.lines, isolation=Isolation(level))
        self._thread = threading.Thread(target=lambda: self.results.append(execute_task(self.task, context)))
        self._thread.start()

    def wait(self, is_reached: Callable[[MemoryLog], object] = bool) -> None:
        wait_until(lambda: is_reached(self.lines) or self.results, "a line of the script")

    def end(self) -> TaskResult:
        self._thread.join(40)
        return self.results[0]

    def stop(self) -> None:
        self.task.stopped.set()
        self.end()


def require_level(level: IsolationLevel) -> None:
    """Skip where neither root nor the kernel allows a level; root of a machine has them all."""
    if os.geteuid() != 0 and level != detect_isolation().level:
        pytest.skip(f"only root has {level}")


@pytest.mark.parametrize("level", ISOLATED_LEVELS)
def test_a_script_neither_reads_nor_ends_another(level: IsolationLevel) -> None:
    require_level(level)
    mark = secrets.token_hex(9)
    write_secret = 'umask; echo "$SECRET" > /tmp/of-$$; echo "$SECRET" > ~/left; echo "$HOME"'
    script = f"{write_secret}; sleep 1000 & wait; echo over"
    first = ScriptRun(level, script, SECRET=mark)
    first.wait(lambda lines: len(lines) == 2)
    second = ScriptRun(level, SEARCH_SCRIPT, ONE=mark[:9], TWO=mark[9:], FOLDER=first.lines[1])
    assert second.end().status in ("SUCCEEDED", "FAILED")
    # `kill -1` ends whatever it may; in namespaces of its own it spares the shell that says the rest.
    assert [line for line in second.lines if line != "looked"] == []
    assert not first.results
    assert len(first.lines) == 2
    first.stop()


def test_without_isolation_a_script_does_read_another() -> None:
    mark = secrets.token_hex(9)
    first = ScriptRun(IsolationLevel.NONE, 'echo "$HOME"; sleep 1000', SECRET=mark)
    first.wait()
    search_script = SEARCH_SCRIPT.replace("kill -9 -1 2>/dev/null\n", "")
    second = ScriptRun(IsolationLevel.NONE, search_script, ONE=mark[:9], TWO=mark[9:], FOLDER=first.lines[0])
    second.end()
    first.stop()
    assert any(line.startswith("reads /proc/") for line in second.lines)


@pytest.mark.parametrize("level", list(IsolationLevel))
@pytest.mark.parametrize(
    "escape",
    [
        "setsid sleep {nap} >/dev/null 2>&1 &",
        "(setsid sh -c 'sleep {nap} & sleep {nap} &' &) ; sleep 0.2",
        "nohup setsid sleep {nap} &",
    ],
    ids=["session", "orphans", "nohup"],
)
def test_what_leaves_its_session_ends_with_the_script(level: IsolationLevel, escape: str) -> None:
    require_level(level) if level is not IsolationLevel.NONE else None
    duration = choose_duration()
    script_run = ScriptRun(level, f"{escape.format(nap=duration)}\nsleep 0.3; echo here; sleep 0.3")
    script_run.wait()
    assert list_sleepers(duration)
    assert script_run.end().status == "SUCCEEDED"
    assert not list_sleepers(duration)


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_scripts_end_with_the_agent_that_was_killed(level: IsolationLevel) -> None:
    require_level(level) if level is not IsolationLevel.NONE else None
    duration = choose_duration()
    program = (
        "import sys; from tests.delegates.agent.held_tasks import *; from delegates.agent.isolation import *;"
        f"execute_task(create_task('shell', {{'script': 'setsid sleep {duration}'}}),"
        f" ExecutorContext(MemoryLog(), isolation=Isolation(IsolationLevel('{level}'))))"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as agent:
        wait_until(lambda: list_sleepers(duration), "the script")
        agent.kill()
    wait_until(lambda: not list_sleepers(duration), "the end of the script")


@needs_root
@pytest.mark.parametrize("level", [IsolationLevel.USERS_AND_NAMESPACES, IsolationLevel.USERS])
def test_each_task_has_a_user_of_its_own_and_no_way_to_more_rights(level: IsolationLevel) -> None:
    script = "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status | tr -s '\\t' ' '; sleep 1000"
    script_runs = [ScriptRun(level, script) for _ in range(3)]
    for script_run in script_runs:
        script_run.wait(lambda lines: len(lines) == 4)
        script_run.stop()
    users = {int(finished_run.lines[0]) for finished_run in script_runs}
    assert len(users) == 3
    assert users <= set(RANGES[0])
    assert script_runs[0].lines[1:] == [
        "CapEff: 0000000000000000",
        "CapBnd: 0000000000000000",
        "NoNewPrivs: 1",
    ]


@needs_root
@pytest.mark.parametrize("level", [IsolationLevel.USERS_AND_NAMESPACES, IsolationLevel.USERS])
def test_what_outlived_a_killed_supervisor_ends_before_its_user_runs_anything_else(
    level: IsolationLevel,
) -> None:
    duration, environment = choose_duration(), {"PATH": os.environ["PATH"]}
    with open_workspace(Isolation(level)) as workspace:
        script = ["/bin/sh", "-c", f"setsid sleep {duration} & sleep 1000"]
        with workspace.start(script, environment) as supervisor:
            wait_until(lambda: list_sleepers(duration), "what leaves the session")
            supervisor.kill()
        with workspace.start(["/bin/sh", "-c", "echo began; sleep 1000"], environment) as next_process:
            assert next_process.stdout is not None
            first_line, survivors = next_process.stdout.readline(), list_sleepers(duration)
            end_process(next_process)
    assert (first_line, survivors) == (b"began\n", [])


@needs_root
@pytest.mark.parametrize("level", [IsolationLevel.USERS_AND_NAMESPACES, IsolationLevel.USERS])
def test_a_task_cannot_take_the_users_of_the_others(level: IsolationLevel) -> None:
    claim_script = f"""python3 - <<'END'
import fcntl, os, socket, time
taken = []
for user in range({RANGES[0].start}, {RANGES[0].stop}):
    try:
        taken.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        taken[-1].bind(f"\\0slipway-task-user-{{user}}")
    except OSError:
        pass
    for folder in ("/run", "/tmp"):
        try:
            taken.append(open(f"{{folder}}/slipway-task-users/{{user}}"))
            fcntl.flock(taken[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
print("took", flush=True)
time.sleep(1000)
END"""
    first = ScriptRun(level, claim_script)
    first.wait()
    second = ScriptRun(level, "echo second")
    assert second.end().status == "SUCCEEDED", second.results
    assert first.lines == ["took"]
    first.stop()


@needs_root
def test_what_a_user_left_in_shared_folders_is_gone_with_its_task(tmp_path: Path) -> None:
    script = "at=/tmp/of-task-$$; mkdir -p $at/below; echo x > $at/below/file; echo x > /var$at; echo $$"
    script_run = ScriptRun(IsolationLevel.USERS, script)
    assert script_run.end().status == "SUCCEEDED"
    (number,) = script_run.lines
    assert not Path(f"/tmp/of-task-{number}").exists()
    assert not Path(f"/var/tmp/of-task-{number}").exists()
    shared_memory = ScriptRun(IsolationLevel.USERS, "ipcmk -M 64 >/dev/null && id -u")
    assert shared_memory.end().status == "SUCCEEDED"
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
    assert shared_memory.lines[0] not in [row[rows[0].index("cuid")] for row in rows[1:]]
    # What others have in the same folder stays, and so does what a link of the task leads to.
    shared_folder, outside_file = tmp_path / "shared", tmp_path / "kept"
    shared_folder.mkdir()
    outside_file.write_text("kept")
    with lease_user() as user:
        workspace = shared_folder / "slipway-of-an-agent-that-was-killed"
        (workspace / "home").mkdir(parents=True)
        os.chown(workspace, 0, user)
        (shared_folder / "link").symlink_to(outside_file)
        os.lchown(shared_folder / "link", user, user)
        (shared_folder / "other").write_text("other")
        remove_user_files(user, (str(shared_folder),))
    assert [path.name for path in shared_folder.iterdir()] == ["other"]
    assert outside_file.read_text() == "kept"


@needs_root
@pytest.mark.parametrize("level", [IsolationLevel.USERS_AND_NAMESPACES, IsolationLevel.USERS])
def test_a_task_cannot_have_files_read_that_it_may_not_read(level: IsolationLevel, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("IMAGE\0of root\0")
    secret.chmod(0o600)
    # The trap of the prologue writes the outputs; this takes their place with a link before.
    script = f"trap - EXIT; ln -sf {secret} ../out/outputs"
    task = create_task("shell", {"script": script, "outputs": ["IMAGE"]})
    result = execute_task(task, ExecutorContext(MemoryLog(), isolation=Isolation(level)))
    assert result.result == {"exit_code": 0, "outputs": {}}


@pytest.mark.parametrize("level", [IsolationLevel.USERS_AND_NAMESPACES, IsolationLevel.NAMESPACES])
def test_folders_of_the_program_are_hidden_and_its_tools_are_shown(
    level: IsolationLevel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_level(level)
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "spool").mkdir()
    (home / "spool" / "lines").write_text("of another")
    (home / "bin" / "tool").write_text("#!/bin/sh\necho tool\n")
    (home / "bin" / "tool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    lines = MemoryLog()
    script = f"tool; ls {home}; cat {home}/spool/lines; echo x > {home}/bin/tool; echo over"
    task = create_task("shell", {"script": script})
    execute_task(task, ExecutorContext(lines, isolation=Isolation(level).with_hidden(home)))
    assert lines[:2] == ["tool", "bin"]
    assert "of another" not in lines
    assert lines[-1] == "over"
    assert (home / "bin" / "tool").read_text().endswith("echo tool\n")


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_names_of_a_task_are_not_interned(
    level: IsolationLevel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_level(level) if level is not IsolationLevel.NONE else None
    lines = LogSpool(tmp_path, 10_000).open("task", 1)
    isolation, task = Isolation(level), create_task("shell", {"script": "echo over", "outputs": ["HOME"]})
    # `pathlib` interns the parts of each path; without an end, the table of all names would grow by them.
    interned: list[str] = []
    monkeypatch.setattr(sys, "intern", lambda name: interned.append(name) or name)
    result = execute_task(task, ExecutorContext(lines, isolation=isolation))
    lines.close()
    chunk = lines.first()
    lines.acknowledge(lines.next_sequence)
    assert (result.status, b'"over"' in chunk.lines if chunk else chunk) == ("SUCCEEDED", True)
    assert (list(tmp_path.iterdir()), interned) == ([], [])


def test_files_outside_of_the_folder_of_a_task_are_not_read() -> None:
    with open_workspace(Isolation(IsolationLevel.NONE)) as workspace:
        (inside := Path(workspace.create_folder("out"), "written")).write_text("own")
        assert workspace.read(inside, 10) == b"own"
        for path in ("/etc/passwd", f"{workspace.folder}-other/file"):
            with pytest.raises(ValueError, match="is not in"):
                workspace.read(path, 10)


def test_what_the_task_asks_to_be_loaded_is_not_loaded_by_the_agent() -> None:
    lines = MemoryLog()
    task = create_task(
        "shell", {"script": "echo over", "environment": {"LD_PRELOAD": "/nowhere.so", "PYTHONPATH": "/tmp"}}
    )
    assert execute_task(task, ExecutorContext(lines)).status == "SUCCEEDED"
    assert lines[-1] == "over"


@needs_root
def test_what_works_is_found_out_by_trying() -> None:
    python = [sys.executable, "-c", PRINT_LEVEL]
    levels = [
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        for command in (python, [*AS_ON_FARGATE, *python])
    ]
    assert levels == ["users_and_namespaces", "users"]


def test_a_level_that_does_not_work_here_refuses_the_task() -> None:
    program = (
        "from tests.delegates.agent.held_tasks import *; from delegates.agent.isolation import *;"
        "answer = execute_task(create_task('shell', {'script': 'true'}),"
        " ExecutorContext(MemoryLog(), isolation=Isolation(IsolationLevel.USERS_AND_NAMESPACES)));"
        "print(answer.error['code'], answer.error['capability'])"
    )
    command = [sys.executable, "-c", program]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-all", *command]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "NotIsolated True", process


def test_a_nul_is_refused_before_anything_runs() -> None:
    task = create_task("shell", {"script": "true", "environment": {"A": "b\0c"}})
    assert get_error(execute_task(task, ExecutorContext(MemoryLog())))["code"] == "BadParameters"
