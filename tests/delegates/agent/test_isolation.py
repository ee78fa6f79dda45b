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
from tests.delegates.agent.held_tasks import AS_ON_FARGATE, Said, error_of, held_task, sleepers, unique_nap
from tests.fixtures.processes import ROOT, wait_until

KEPT_APART = [level for level in IsolationLevel if level is not IsolationLevel.NONE]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
SAY_LEVEL = "from delegates.agent.isolation import detect_isolation; print(detect_isolation().level)"
# Reads what it can of others; a mark is written in two parts, so that no look finds itself.
LOOK = """
for at in /proc/[0-9]*/environ; do
  if grep -q "$ONE$TWO" "$at" 2>/dev/null; then echo "reads $at"; fi
done
for at in "$FOLDER"/* /tmp/* /var/tmp/* /dev/shm/*; do
  if grep -qs "$ONE$TWO" "$at"; then echo "finds it in $at"; fi
done
kill -9 -1 2>/dev/null
echo looked
"""


class Running:
    """A script that runs in a thread."""

    def __init__(self, level: IsolationLevel, script: str, **environment: str) -> None:
        self.said = Said()
        self.held = held_task("shell", {"script": script, "environment": environment})
        self.answers: list[TaskResult] = []
        around = ExecutorContext(self.said, isolation=Isolation(level))
        self._thread = threading.Thread(target=lambda: self.answers.append(execute_task(self.held, around)))
        self._thread.start()

    def wait(self, of: Callable[[Said], object] = bool) -> None:
        wait_until(lambda: of(self.said) or self.answers, "a line of the script")

    def end(self) -> TaskResult:
        self._thread.join(40)
        return self.answers[0]

    def stop(self) -> None:
        self.held.stopped.set()
        self.end()


def works(level: IsolationLevel) -> None:
    """Skip where neither root nor the kernel allows a level; root of a machine has them all."""
    if os.geteuid() != 0 and level != detect_isolation().level:
        pytest.skip(f"only root has {level}")


@pytest.mark.parametrize("level", KEPT_APART)
def test_a_script_neither_reads_nor_ends_another(level: IsolationLevel) -> None:
    works(level)
    mark = secrets.token_hex(9)
    keep = 'umask; echo "$SECRET" > /tmp/of-$$; echo "$SECRET" > ~/left; echo "$HOME"'
    script = f"{keep}; sleep 1000 & wait; echo over"
    first = Running(level, script, SECRET=mark)
    first.wait(lambda said: len(said) == 2)
    second = Running(level, LOOK, ONE=mark[:9], TWO=mark[9:], FOLDER=first.said[1])
    assert second.end().status in ("SUCCEEDED", "FAILED")
    # `kill -1` ends whatever it may; in namespaces of its own it spares the shell that says the rest.
    assert [line for line in second.said if line != "looked"] == []
    assert not first.answers
    assert len(first.said) == 2
    first.stop()


def test_without_isolation_a_script_does_read_another() -> None:
    mark = secrets.token_hex(9)
    first = Running(IsolationLevel.NONE, 'echo "$HOME"; sleep 1000', SECRET=mark)
    first.wait()
    look = LOOK.replace("kill -9 -1 2>/dev/null\n", "")
    second = Running(IsolationLevel.NONE, look, ONE=mark[:9], TWO=mark[9:], FOLDER=first.said[0])
    second.end()
    first.stop()
    assert any(line.startswith("reads /proc/") for line in second.said)


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
    works(level) if level is not IsolationLevel.NONE else None
    nap = unique_nap()
    running = Running(level, f"{escape.format(nap=nap)}\nsleep 0.3; echo here; sleep 0.3")
    running.wait()
    assert sleepers(nap)
    assert running.end().status == "SUCCEEDED"
    assert not sleepers(nap)


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_scripts_end_with_the_agent_that_was_killed(level: IsolationLevel) -> None:
    works(level) if level is not IsolationLevel.NONE else None
    nap = unique_nap()
    program = (
        "import sys; from tests.delegates.agent.held_tasks import *; from delegates.agent.isolation import *;"
        f"execute_task(held_task('shell', {{'script': 'setsid sleep {nap}'}}),"
        f" ExecutorContext(Said(), isolation=Isolation(IsolationLevel('{level}'))))"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as agent:
        wait_until(lambda: sleepers(nap), "the script")
        agent.kill()
    wait_until(lambda: not sleepers(nap), "the end of the script")


@needs_root
@pytest.mark.parametrize("level", [IsolationLevel.USERS_AND_NAMESPACES, IsolationLevel.USERS])
def test_each_task_has_a_user_of_its_own_and_no_way_to_more_rights(level: IsolationLevel) -> None:
    script = "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status | tr -s '\\t' ' '; sleep 1000"
    running = [Running(level, script) for _ in range(3)]
    for one in running:
        one.wait(lambda said: len(said) == 4)
        one.stop()
    users = {int(one.said[0]) for one in running}
    assert len(users) == 3
    assert users <= set(RANGES[0])
    assert running[0].said[1:] == ["CapEff: 0000000000000000", "CapBnd: 0000000000000000", "NoNewPrivs: 1"]


@needs_root
@pytest.mark.parametrize("level", [IsolationLevel.USERS_AND_NAMESPACES, IsolationLevel.USERS])
def test_what_outlived_a_killed_supervisor_ends_before_its_user_runs_anything_else(
    level: IsolationLevel,
) -> None:
    nap, environment = unique_nap(), {"PATH": os.environ["PATH"]}
    with open_workspace(Isolation(level)) as workspace:
        script = ["/bin/sh", "-c", f"setsid sleep {nap} & sleep 1000"]
        with workspace.start(script, environment) as supervisor:
            wait_until(lambda: sleepers(nap), "what leaves the session")
            supervisor.kill()
        with workspace.start(["/bin/sh", "-c", "echo began; sleep 1000"], environment) as following:
            assert following.stdout is not None
            began, left = following.stdout.readline(), sleepers(nap)
            end_process(following)
    assert (began, left) == (b"began\n", [])


@needs_root
@pytest.mark.parametrize("level", [IsolationLevel.USERS_AND_NAMESPACES, IsolationLevel.USERS])
def test_a_task_cannot_take_the_users_of_the_others(level: IsolationLevel) -> None:
    take = f"""python3 - <<'END'
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
    first = Running(level, take)
    first.wait()
    second = Running(level, "echo second")
    assert second.end().status == "SUCCEEDED", second.answers
    assert first.said == ["took"]
    first.stop()


@needs_root
def test_what_a_user_left_in_shared_folders_is_gone_with_its_task(tmp_path: Path) -> None:
    script = "at=/tmp/of-task-$$; mkdir -p $at/below; echo x > $at/below/file; echo x > /var$at; echo $$"
    running = Running(IsolationLevel.USERS, script)
    assert running.end().status == "SUCCEEDED"
    (number,) = running.said
    assert not Path(f"/tmp/of-task-{number}").exists()
    assert not Path(f"/var/tmp/of-task-{number}").exists()
    shared_memory = Running(IsolationLevel.USERS, "ipcmk -M 64 >/dev/null && id -u")
    assert shared_memory.end().status == "SUCCEEDED"
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
    assert shared_memory.said[0] not in [row[rows[0].index("cuid")] for row in rows[1:]]
    # What others have in the same folder stays, and so does what a link of the task leads to.
    shared, kept = tmp_path / "shared", tmp_path / "kept"
    shared.mkdir()
    kept.write_text("kept")
    with lease_user() as user:
        workspace = shared / "slipway-of-an-agent-that-was-killed"
        (workspace / "home").mkdir(parents=True)
        os.chown(workspace, 0, user)
        (shared / "link").symlink_to(kept)
        os.lchown(shared / "link", user, user)
        (shared / "other").write_text("other")
        remove_user_files(user, (str(shared),))
    assert [path.name for path in shared.iterdir()] == ["other"]
    assert kept.read_text() == "kept"


@needs_root
@pytest.mark.parametrize("level", [IsolationLevel.USERS_AND_NAMESPACES, IsolationLevel.USERS])
def test_a_task_cannot_have_files_read_that_it_may_not_read(level: IsolationLevel, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("IMAGE\0of root\0")
    secret.chmod(0o600)
    # The trap of the prologue writes the outputs; this takes their place with a link before.
    script = f"trap - EXIT; ln -sf {secret} ../out/outputs"
    held = held_task("shell", {"script": script, "outputs": ["IMAGE"]})
    answer = execute_task(held, ExecutorContext(Said(), isolation=Isolation(level)))
    assert answer.result == {"exit_code": 0, "outputs": {}}


@pytest.mark.parametrize("level", [IsolationLevel.USERS_AND_NAMESPACES, IsolationLevel.NAMESPACES])
def test_folders_of_the_program_are_hidden_and_its_tools_are_shown(
    level: IsolationLevel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works(level)
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "spool").mkdir()
    (home / "spool" / "lines").write_text("of another")
    (home / "bin" / "tool").write_text("#!/bin/sh\necho tool\n")
    (home / "bin" / "tool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    said = Said()
    script = f"tool; ls {home}; cat {home}/spool/lines; echo x > {home}/bin/tool; echo over"
    held = held_task("shell", {"script": script})
    execute_task(held, ExecutorContext(said, isolation=Isolation(level).with_hidden(home)))
    assert said[:2] == ["tool", "bin"]
    assert "of another" not in said
    assert said[-1] == "over"
    assert (home / "bin" / "tool").read_text().endswith("echo tool\n")


def test_what_the_task_asks_to_be_loaded_is_not_loaded_by_the_agent() -> None:
    said = Said()
    held = held_task(
        "shell", {"script": "echo over", "environment": {"LD_PRELOAD": "/nowhere.so", "PYTHONPATH": "/tmp"}}
    )
    assert execute_task(held, ExecutorContext(said)).status == "SUCCEEDED"
    assert said[-1] == "over"


@needs_root
def test_what_works_is_found_out_by_trying() -> None:
    python = [sys.executable, "-c", SAY_LEVEL]
    found = [
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        for command in (python, [*AS_ON_FARGATE, *python])
    ]
    assert found == ["users_and_namespaces", "users"]


def test_a_level_that_does_not_work_here_refuses_the_task() -> None:
    program = (
        "from tests.delegates.agent.held_tasks import *; from delegates.agent.isolation import *;"
        "answer = execute_task(held_task('shell', {'script': 'true'}),"
        " ExecutorContext(Said(), isolation=Isolation(IsolationLevel.USERS_AND_NAMESPACES)));"
        "print(answer.error['code'], answer.error['capability'])"
    )
    command = [sys.executable, "-c", program]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-all", *command]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "NotIsolated True", done


def test_a_nul_is_refused_before_anything_runs() -> None:
    held = held_task("shell", {"script": "true", "environment": {"A": "b\0c"}})
    assert error_of(execute_task(held, ExecutorContext(Said())))["code"] == "BadParameters"
