"""Runs Terraform, or Terragrunt, which takes the same arguments: init, then plan, apply or destroy.

The state has to lie elsewhere: what this delegate keeps is gone with the task.
"""

import base64
import json
import os
import re
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from delegates.agent.executors.answers import Answer, Surroundings, aborted, failed
from delegates.agent.executors.shell import script_environment
from delegates.agent.executors.shell_process import Ended, Listener, Program, Stop, run_until
from delegates.agent.executors.terraform_job import APPLY, DESTROY, LOCK_FILE, PLAN, Job, lay_out, read_job
from delegates.agent.executors.terraform_lines import Progress
from delegates.agent.isolation import Workspace, open_workspace
from delegates.agent.work import Held
from guards.limits import (
    SCRIPT_OPEN_FILES,
    SCRIPT_OUTPUTS_BYTES,
    TERRAFORM_FILE_BYTES,
    TERRAFORM_PLAN_BYTES,
    TERRAFORM_READ_BYTES,
    TERRAFORM_WORDS,
)

# What whoever runs the delegate sets for all of Terraform, such as a mirror of its providers.
_OF_DELEGATE = re.compile(r"TF_(CLI_CONFIG_FILE|PLUGIN_CACHE_DIR|REGISTRY_\w+)\Z")
_LIMITS = f"ulimit -c 0; ulimit -n {SCRIPT_OPEN_FILES:d}; ulimit -f {TERRAFORM_FILE_BYTES // 512}"
_TELL, _KEEP = f'{_LIMITS}; shift; exec "$@"', f'{_LIMITS}; out="$1"; shift; exec "$@" > "$out"'
_QUIET = ("-input=false", "-no-color")
STOPPED, TIMED_OUT = "STOPPED", "TIMED_OUT"


class _Over(Exception):
    """The run is over; `answer` is what it came to."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def run_terraform(held: Held, around: Surroundings) -> Answer:
    """Do the job of a task. Raises `KeyError` and `ValueError` for parameters that cannot be used.

    What began to change something says so in its result, however it ended.
    """
    if around.blocks_shell:
        # A configuration may run any program.
        return failed(
            "ShellBlocked", "this delegate runs no scripts, so no Terraform either", capability=True
        )
    job = read_job(held.task.params)
    with open_workspace(around.isolation) as workspace:
        run = _Run(held, around, job, workspace)
        if shutil.which(job.program, path=run.environment.get("PATH")) is None:
            text = f"this delegate has no {job.program}: install it in its image"
            return failed("NoTerraform", text, capability=True)
        try:
            return run.to_its_end()
        except _Over as over:
            return over.answer


@dataclass
class _Run:
    """One job in a folder of its own."""

    held: Held
    around: Surroundings
    job: Job
    workspace: Workspace
    result: dict[str, Any] = field(default_factory=dict)
    is_changing: bool = False

    def __post_init__(self) -> None:
        """Write the files."""
        self.home = self.workspace.folder
        work, _, _, self.out = (self.workspace.private(name) for name in ("work", "data", "home", "out"))
        self.folder = lay_out(self.job, work)
        self.workspace.lend(work)
        self.environment = _environment(self.job, self.home)
        self.progress = Progress(self.around)
        self.result |= {"begun": False, "ended": "", "exit_code": 0, "errors": []}

    def to_its_end(self) -> Answer:
        """Raises `_Over` where a command fails."""
        self._init()
        if self.job.command == PLAN:
            self._plan()
        else:
            self._change()
        return Answer(Answer.SUCCEEDED, result=self.result)

    def _init(self) -> None:
        backend = (
            [f"-backend-config={self._text('backend.hcl', self.job.backend)}"] if self.job.backend else []
        )
        self._do("init", *_QUIET, *backend)
        self._refuse_local_state()
        if self.job.workspace:
            self._do("workspace", "select", "-or-create", "-no-color", self.job.workspace)
        if self.job.asks_what_is_there:
            self.result["holds_resources"] = _holds_resources(self._kept("show", "-json", "-no-color"))

    def _refuse_local_state(self) -> None:
        """What init has noted is the backend itself, whichever file or program it came from."""
        try:
            content = self.workspace.read(self.home / "data" / "terraform.tfstate", TERRAFORM_READ_BYTES)
            noted = json.loads(content or b"")["backend"]["type"]
        except (OSError, ValueError, KeyError, TypeError):
            noted = "local"
        if noted == "local":
            raise _Over(failed("NoBackend", _NO_BACKEND))

    def _plan(self) -> None:
        path = self.out / "plan"
        self._do("plan", "-json", *_QUIET, f"-out={path}", *self._how(), *self._inputs())
        text = self._kept("show", "-no-color", str(path))
        self.around.tell(text.splitlines())
        plan = self.workspace.read(path, TERRAFORM_PLAN_BYTES + 1)
        if plan is None:
            raise _Over(failed("NoPlan", f"{self.job.program} plan ended well and wrote no plan"))
        if len(plan) > TERRAFORM_PLAN_BYTES:
            raise _Over(failed("PlanTooLarge", f"the plan is larger than {TERRAFORM_PLAN_BYTES}"))
        lock = self._read(self.folder / LOCK_FILE)
        self.result |= {
            "plan": base64.b64encode(plan).decode(),
            "lock": lock,
            "words": self.around.mask.text(text)[:TERRAFORM_WORDS],
            "counts": self.progress.counts,
        }

    def _change(self) -> None:
        how = [str(self._plan_file())] if self.job.plan else ["-auto-approve", *self._how(), *self._inputs()]
        self.is_changing = True
        self._do(APPLY, "-json", *_QUIET, *how)
        self.result["begun"] = True
        self.result["counts"] = self.progress.counts
        if self.job.command == APPLY:
            text = self._kept("output", "-json", "-no-color")
            if len(text) > SCRIPT_OUTPUTS_BYTES:
                raise _Over(
                    self._failure("OutputsTooLarge", f"the outputs are larger than {SCRIPT_OUTPUTS_BYTES}")
                )
            self.result["outputs"] = _outputs(text, self.around)

    def _how(self) -> list[str]:
        return ["-destroy"] if self.job.destroys else []

    def _inputs(self) -> list[str]:
        files = [str(self.home / "work" / path) for path in self.job.variable_files]
        if self.job.variables:
            files.append(str(self._text("slipway.tfvars", self.job.variables)))
        return [*(f"-var-file={path}" for path in files), *(f"-target={one}" for one in self.job.targets)]

    def _plan_file(self) -> Path:
        return self.workspace.write("plan", self.job.plan)

    def _text(self, name: str, text: str) -> Path:
        return self.workspace.write(name, text)

    def _do(self, *arguments: str) -> None:
        self.around.tell([f"$ {self.job.program} {' '.join(self._shown(arguments))}"])
        self._judge(self._call(_TELL, "-", *arguments, listener=self.progress), arguments[0])

    def _shown(self, arguments: tuple[str, ...]) -> list[str]:
        return [one.replace(f"{self.home}/", "") for one in arguments]

    def _kept(self, *arguments: str) -> str:
        """What a command prints, for nobody's eyes."""
        path = self.out / "printed"
        self._judge(self._call(_KEEP, str(path), *arguments, listener=self.around), arguments[0])
        return self._read(path)

    def _read(self, path: Path) -> str:
        """A text that the task wrote, nothing where it wrote none. Raises `_Over` where it is too large.

        All tasks share the memory of the agent.
        """
        content = self.workspace.read(path, TERRAFORM_READ_BYTES + 1) or b""
        if len(content) > TERRAFORM_READ_BYTES:
            text = f"{path.name} is larger than {TERRAFORM_READ_BYTES}"
            raise _Over(self._failure("OutputsTooLarge", text))
        return content.decode("utf-8", "replace")

    def _call(self, script: str, out: str, *arguments: str, listener: Listener) -> Ended:
        command = ["/bin/sh", "-c", script, "slipway", out, self.job.program, *arguments]
        program = Program(self.workspace, self.folder, command, self.environment)
        # Terraform ends what it has begun and writes its state; its providers ignore this signal.
        stop = Stop(signal.SIGINT, self.around.patience_seconds)
        return run_until(self.held, listener, program, stop)

    def _judge(self, ended: Ended, command: str) -> None:
        """Raises `_Over` unless the command did what it should."""
        if not (ended.exit_code or ended.was_stopped or ended.timed_out):
            return
        if ended.was_stopped and not self.is_changing:
            raise _Over(aborted())
        # What it says in other words may have changed something too.
        said = self.progress
        self.result["begun"] = self.is_changing and (said.changes_anything or not said.has_spoken)
        self.result["ended"] = STOPPED if ended.was_stopped else TIMED_OUT if ended.timed_out else ""
        self.result |= {
            "exit_code": ended.exit_code,
            "command": command,
            "errors": self.progress.errors,
            "lock_id": self.progress.lock_id,
            "counts": self.progress.counts,
        }
        raise _Over(
            self._failure(
                "ProgramFailed", f"{self.job.program} {command} ended with exit code {ended.exit_code}"
            )
        )

    def _failure(self, code: str, text: str) -> Answer:
        return Answer(Answer.FAILED, result=self.result, error=failed(code, text).error)


def _environment(job: Job, home: Path) -> dict[str, str]:
    """What the program sees: as a script does, what the delegate says of Terraform, and where it works."""
    of_delegate = {name: value for name, value in os.environ.items() if _OF_DELEGATE.match(name)}
    if not Path(of_delegate.get("TF_CLI_CONFIG_FILE", "")).is_file():
        of_delegate.pop("TF_CLI_CONFIG_FILE", None)
    given = script_environment(os.environ, home / "home", {**of_delegate, **job.environment})
    return {
        **given,
        "TF_DATA_DIR": str(home / "data"),
        "TF_IN_AUTOMATION": "1",
        "CHECKPOINT_DISABLE": "1",
        # Terragrunt asks nobody either; the older and the newer name.
        "TERRAGRUNT_NON_INTERACTIVE": "true",
        "TG_NON_INTERACTIVE": "true",
    }


def _holds_resources(text: str) -> bool:
    """Whether a state, as the program shows it, holds anything."""
    try:
        values = json.loads(text).get("values") or {}
    except (ValueError, AttributeError):
        return False
    root = values.get("root_module") or {}
    return bool(root.get("resources") or root.get("child_modules"))


def _outputs(text: str, around: Surroundings) -> dict[str, dict[str, Any]]:
    """By name the value, and whether people may see it: what holds a secret that was given is one."""
    found: Mapping[str, Any] = json.loads(text)
    return {
        str(name): {
            "value": one["value"],
            "is_secret": bool(one.get("sensitive")) or _holds_secret(one, around),
        }
        for name, one in found.items()
    }


def _holds_secret(output: Mapping[str, Any], around: Surroundings) -> bool:
    text = output["value"] if isinstance(output["value"], str) else json.dumps(output["value"])
    return around.mask.text(text) != text


_NO_BACKEND = (
    "the configuration keeps its state in a local file, which is gone with the task: name a backend that "
    'lies elsewhere, such as terraform { backend "s3" {} }, and its settings under backendConfig'
)
__all__ = ["DESTROY", "STOPPED", "TIMED_OUT", "run_terraform"]
