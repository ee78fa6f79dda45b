"""Runs a shell script: in a workspace and environment of its own, never with the delegate's token."""

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from delegates.agent.executors.answers import Answer, Surroundings, aborted, failed
from delegates.agent.executors.shell_process import Ended, Program, run_until
from delegates.agent.isolation import Workspace, open_workspace
from delegates.agent.work import Held
from guards.limits import SCRIPT_FILE_BYTES, SCRIPT_OPEN_FILES, SCRIPT_OUTPUTS_BYTES, SCRIPT_PROCESSES

INTERPRETERS = ("bash", "sh")
# The role of the task or machine may be used by scripts; keys that the agent itself was given may not.
_KEPT = re.compile(
    r"(PATH|LANG|LC_\w+|TZ|(HTTPS?|NO)_PROXY|(https?|no)_proxy|SSL_CERT_FILE|AWS_(DEFAULT_)?REGION|AWS_CA_BUNDLE"
    r"|AWS_CONTAINER_\w+|ECS_CONTAINER_METADATA_URI(_V4)?)\Z"
)
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")


def run_shell(held: Held, around: Surroundings) -> Answer:
    """Run the script of a task. Raises `KeyError` and `ValueError` for parameters that cannot be used."""
    params = held.task.params
    if around.blocks_shell:
        return failed(
            "ShellBlocked", "this delegate runs no scripts: SLIPWAY_DELEGATE_BLOCK_SHELL is set on it"
        )
    interpreter = str(params.get("interpreter") or "bash")
    if interpreter not in INTERPRETERS:
        raise ValueError(f"interpreter {interpreter!r}; known are {', '.join(INTERPRETERS)}")
    outputs = [_name(one) for one in params.get("outputs") or ()]
    with contextlib.ExitStack() as opened:
        workspace = opened.enter_context(open_workspace(around.isolation, for_others=bool(around.tools)))
        if around.tools:
            opened.enter_context(workspace.lending(around.tools))
        home, out = workspace.private("home"), workspace.private("out")
        workspace.write("script", str(params["script"]))
        workspace.write("prologue", _prologue(out / "outputs", outputs))
        given = dict(params.get("environment") or {})
        written = out / "written"
        if wanted := params.get("output_file"):
            given[_name(wanted)] = str(written)
        environment = script_environment(os.environ, home, given)
        command = _command(interpreter, workspace.folder)
        try:
            ended = run_until(held, around, Program(workspace, home, command, environment))
        except FileNotFoundError:
            return failed("NoInterpreter", f"this delegate has no {interpreter}", capability=True)
        return _answer(ended, workspace, out / "outputs", written if wanted else None)


def script_environment(own: Mapping[str, str], home: Path, given: Mapping[str, Any]) -> dict[str, str]:
    """What a script sees: a list of harmless variables, and what its task says."""
    kept = {name: value for name, value in own.items() if _KEPT.match(name)}
    said = {_name(name): str(value) for name, value in given.items()}
    return {**kept, "HOME": str(home), "TMPDIR": str(home), **said}


def _name(text: Any) -> str:
    if not _NAME.match(str(text)):
        raise ValueError(f"{text!r} is not the name of a variable")
    return str(text)


def _command(interpreter: str, folder: Path) -> list[str]:
    # Shells differ in what they call the number of processes.
    limits = (
        f"ulimit -n {SCRIPT_OPEN_FILES:d}; ulimit -c 0; ulimit -f {SCRIPT_FILE_BYTES // 512}; "
        f"{{ ulimit -u {SCRIPT_PROCESSES:d} || ulimit -p {SCRIPT_PROCESSES:d}; }} 2>/dev/null"
    )
    start = f'{limits}; exec "$2" -c \'. "$0/prologue"; . "$0/script"\' "$1"'
    return ["/bin/sh", "-c", start, "slipway", str(folder), interpreter]


def _prologue(path: Path, names: Sequence[str]) -> str:
    """Writes the wanted variables however the script ends; NUL parts them, which no variable can hold."""
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


def _answer(ended: Ended, workspace: Workspace, path: Path, written: Path | None = None) -> Answer:
    if ended.was_stopped:
        return aborted()
    if ended.timed_out:
        return failed("TimedOut", "the script did not end in time and was killed")
    content = workspace.read(path, SCRIPT_OUTPUTS_BYTES + 1) or b""
    file = None if written is None else workspace.read(written, SCRIPT_OUTPUTS_BYTES + 1)
    if len(content) + len(file or b"") > SCRIPT_OUTPUTS_BYTES:
        return failed("OutputsTooLarge", f"the outputs are larger than {SCRIPT_OUTPUTS_BYTES}")
    parts = content.decode("utf-8", "replace").split("\0")
    result: dict[str, Any] = {
        "exit_code": ended.exit_code,
        "outputs": dict(zip(parts[::2], parts[1::2], strict=False)),
    }
    if file is not None:
        result["written"] = _CONTROL.sub("\ufffd", file.decode("utf-8", "replace"))
    if ended.exit_code == 0:
        return Answer(Answer.SUCCEEDED, result=result)
    why = failed("ScriptFailed", f"the script ended with exit code {ended.exit_code}")
    return Answer(Answer.FAILED, result=result, error=why.error)
