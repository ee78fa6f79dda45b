"""Shell executor: a script in a workspace, its environment, process and output."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from delegates.agent.executors.task_results import ExecutorContext, TaskResult, build_aborted, build_failure
from delegates.agent.isolation import TaskWorkspace, end_process, open_workspace
from delegates.agent.tasks import HeldTask
from guards.limits import SCRIPT_FILE_BYTES, SCRIPT_OPEN_FILES, SCRIPT_OUTPUTS_BYTES, SCRIPT_PROCESSES
from guards.masks import MaskedLineReader, SecretMask

POLL_SECONDS, KILL_SECONDS = 0.1, 3.0


class OutputListener(Protocol):
    """Listener that receives a process's output in whole lines."""

    @property
    def mask(self) -> SecretMask: ...
    def write_lines(self, texts: Sequence[str], level: str = "INFO") -> None: ...


@dataclass(frozen=True)
class StopSignal:
    """Signal that ends a process, and the time before it is killed."""

    by: signal.Signals = signal.SIGTERM
    seconds: float = KILL_SECONDS


KILL_IMMEDIATELY = StopSignal()


@dataclass(frozen=True)
class ProcessExit:
    """Exit of a process; a signal is 128 and its number, as in shells."""

    exit_code: int
    was_stopped: bool = False
    timed_out: bool = False


@dataclass(frozen=True)
class ProcessCommand:
    """A command to run in a folder of a task's workspace."""

    workspace: TaskWorkspace
    folder: str | Path
    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)


def run_process(
    held_task: HeldTask,
    around: OutputListener,
    program: ProcessCommand,
    stop: StopSignal = KILL_IMMEDIATELY,
) -> ProcessExit:
    """Run to the end, to the task's time-out or until it is stopped. Raises as `Workspace.start` does."""
    with program.workspace.start(program.command, program.environment, cwd=program.folder) as process:
        group = _ProcessGroup(process, around, stop)
        try:
            stopped, timed_out = group.watch(held_task)
        finally:
            # Children in the background would live on.
            end_process(process)
        group.write_remaining_output()
    code = process.returncode
    return ProcessExit(128 - code if code < 0 else code, stopped, timed_out)


class _ProcessGroup:
    """The processes of one script, and the pipe that they all write to."""

    def __init__(self, process: "subprocess.Popen[bytes]", around: OutputListener, stop: StopSignal) -> None:
        self._process, self._around, self._stop = process, around, stop
        self._output = MaskedLineReader(around.mask)
        self._pipe = process.stdout.fileno() if process.stdout else -1
        os.set_blocking(self._pipe, False)

    def watch(self, held_task: HeldTask) -> tuple[bool, bool]:
        """Pass on lines until the script ends, and return whether it was stopped and whether by a timeout."""
        kill_at, stopped = 0.0, False
        while self._process.poll() is None:
            if data := self._read():
                self._around.write_lines(self._output.feed(data))
            elif kill_at:
                time.sleep(POLL_SECONDS)
            else:
                held_task.stopped.wait(POLL_SECONDS)
            if not kill_at and (held_task.stopped.is_set() or held_task.seconds_left <= 0):
                stopped, kill_at = held_task.stopped.is_set(), time.monotonic() + self._stop.seconds
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(self._stop.by)
            if kill_at and time.monotonic() > kill_at:
                end_process(self._process)
        return stopped, bool(kill_at) and not stopped

    def write_remaining_output(self) -> None:
        while data := self._read():
            self._around.write_lines(self._output.feed(data))
        self._around.write_lines(self._output.end())

    def _read(self) -> bytes:
        with contextlib.suppress(BlockingIOError):
            return os.read(self._pipe, 65_536)
        return b""


INTERPRETERS = ("bash", "sh")
# The role of the task or machine may be used by scripts; keys that the agent itself was given may not.
_INHERITED = re.compile(
    r"(PATH|LANG|LC_\w+|TZ|(HTTPS?|NO)_PROXY|(https?|no)_proxy|SSL_CERT_FILE|AWS_(DEFAULT_)?REGION|AWS_CA_BUNDLE"
    r"|AWS_CONTAINER_\w+|ECS_CONTAINER_METADATA_URI(_V4)?)\Z"
)
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")


def run_shell(held_task: HeldTask, around: ExecutorContext) -> TaskResult:
    """Run the script of a task. Raises `KeyError` and `ValueError` for parameters that cannot be used."""
    params = held_task.task.params
    if around.blocks_shell:
        return build_failure(
            "ShellBlocked", "this delegate does not run scripts: SLIPWAY_DELEGATE_BLOCK_SHELL is set on it"
        )
    interpreter = str(params.get("interpreter") or "bash")
    if interpreter not in INTERPRETERS:
        raise ValueError(f"interpreter {interpreter!r}; known are {', '.join(INTERPRETERS)}")
    # Not by the PATH of the task: a wrong one is its own fault.
    if shutil.which(interpreter) is None:
        return build_failure("NoInterpreter", f"this delegate has no {interpreter}", capability=True)
    outputs = [_validate_name(output) for output in params.get("outputs") or ()]
    with contextlib.ExitStack() as stack:
        workspace = stack.enter_context(open_workspace(around.isolation, for_others=bool(around.tools)))
        if around.tools:
            stack.enter_context(workspace.lend_tree(around.tools))
        home, out = workspace.create_folder("home"), workspace.create_folder("out")
        workspace.write("script", str(params["script"]))
        workspace.write("prologue", _build_prologue(f"{out}/outputs", outputs))
        variables = dict(params.get("environment") or {})
        output_path = f"{out}/written"
        if output_file := params.get("output_file"):
            variables[_validate_name(output_file)] = output_path
        environment = build_script_environment(os.environ, home, variables)
        command = _build_command(interpreter, workspace.folder)
        process_exit = run_process(held_task, around, ProcessCommand(workspace, home, command, environment))
        return _build_result(process_exit, workspace, f"{out}/outputs", output_path if output_file else None)


def build_script_environment(
    own: Mapping[str, str], home: str, task_variables: Mapping[str, Any]
) -> dict[str, str]:
    """Return the environment variables of a script: a list of harmless ones, and those of its task."""
    inherited = {name: value for name, value in own.items() if _INHERITED.match(name)}
    variables = {_validate_name(name): str(value) for name, value in task_variables.items()}
    return {**inherited, "HOME": home, "TMPDIR": home, **variables}


def _validate_name(text: Any) -> str:
    if not _NAME.match(str(text)):
        raise ValueError(f"{text!r} is not the name of a variable")
    return str(text)


def _build_command(interpreter: str, folder: str) -> list[str]:
    # Shells name the limit on processes differently.
    limits = (
        f"ulimit -n {SCRIPT_OPEN_FILES:d}; ulimit -c 0; ulimit -f {SCRIPT_FILE_BYTES // 512}; "
        f"{{ ulimit -u {SCRIPT_PROCESSES:d} || ulimit -p {SCRIPT_PROCESSES:d}; }} 2>/dev/null"
    )
    start = f'{limits}; exec "$2" -c \'. "$0/prologue"; . "$0/script"\' "$1"'
    return ["/bin/sh", "-c", start, "slipway", folder, interpreter]


def _build_prologue(path: str, names: Sequence[str]) -> str:
    """Return the prologue that writes the output variables at any exit of the script, separated by NUL."""
    if not names:
        return ""
    return f"""slipway_outputs() {{
  slipway_status=$?
  for slipway_name in {" ".join(names)}; do
    eval "slipway_value=\\${{$slipway_name-}}"
    printf '%s\\0%s\\0' "$slipway_name" "$slipway_value"
  done > '{path}'
  exit $slipway_status
}}
trap slipway_outputs EXIT
"""


def _build_result(
    process_exit: ProcessExit, workspace: TaskWorkspace, path: str, output_path: str | None = None
) -> TaskResult:
    if process_exit.was_stopped:
        return build_aborted()
    if process_exit.timed_out:
        return build_failure("TimedOut", "the script timed out and was killed")
    content = workspace.read(path, SCRIPT_OUTPUTS_BYTES + 1) or b""
    file = None if output_path is None else workspace.read(output_path, SCRIPT_OUTPUTS_BYTES + 1)
    if len(content) + len(file or b"") > SCRIPT_OUTPUTS_BYTES:
        return build_failure("OutputsTooLarge", f"the outputs are larger than {SCRIPT_OUTPUTS_BYTES}")
    parts = content.decode("utf-8", "replace").split("\0")
    result: dict[str, Any] = {
        "exit_code": process_exit.exit_code,
        "outputs": dict(zip(parts[::2], parts[1::2], strict=False)),
    }
    if file is not None:
        result["written"] = _CONTROL.sub("\ufffd", file.decode("utf-8", "replace"))
    if process_exit.exit_code == 0:
        return TaskResult(TaskResult.SUCCEEDED, result=result)
    failure = build_failure("ScriptFailed", f"the script exited with code {process_exit.exit_code}")
    return TaskResult(TaskResult.FAILED, result=result, error=failure.error)
