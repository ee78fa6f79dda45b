"""Terraform and Terragrunt executor: job, init, plan, apply, destroy, output."""

import base64
import json
import logging
import os
import re
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from delegates.agent.executors.shell import (
    OutputListener,
    ProcessCommand,
    ProcessExit,
    StopSignal,
    build_script_environment,
    run_process,
)
from delegates.agent.executors.task_results import ExecutorContext, TaskResult, build_aborted, build_failure
from delegates.agent.isolation import CannotIsolate, TaskWorkspace, open_workspace
from delegates.agent.tasks import HeldTask
from guards.limits import (
    SCRIPT_OPEN_FILES,
    SCRIPT_OUTPUTS_BYTES,
    TERRAFORM_FILE_BYTES,
    TERRAFORM_PLAN_BYTES,
    TERRAFORM_PLAN_TEXT_CHARACTERS,
    TERRAFORM_READ_BYTES,
)
from guards.masks import SecretMask

log = logging.getLogger("slipway.delegate")
_LEVELS = {"error": "ERROR", "warn": "WARN"}
_COUNTED = {"add": "add", "change": "change", "remove": "destroy", "import": "import"}
# If the backend names the lock itself, the following fields describe the requested lock.
_LOCK_IDS = (re.compile(r"already locked: ID=(\S+)"), re.compile(r"^\s*ID:\s+(\S+)\s*$", re.MULTILINE))
MOST_ERRORS, LONGEST_ERROR = 20, 2000


@dataclass
class TerraformProgress:
    """Filter of the program's output; it collects errors and counts of planned and applied changes."""

    around: OutputListener
    errors: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    lock_id: str = ""
    has_output: bool = False
    changes_anything: bool = False

    @property
    def mask(self) -> SecretMask:
        return self.around.mask

    def write_lines(self, texts: Sequence[str], level: str = "INFO") -> None:
        """Log a line of the program's output; a line that is not JSON is logged unchanged."""
        for text in texts:
            record = _parse_line(text)
            if record is None:
                self.around.write_lines([text], level)
            else:
                self._record(record)

    def _record(self, record: Mapping[str, Any]) -> None:
        lines = list(_format_lines(record))
        self.has_output = True
        self.changes_anything = self.changes_anything or record.get("type") == "apply_start"
        diagnostic = record.get("diagnostic")
        if isinstance(diagnostic, Mapping) and diagnostic.get("severity") == "error":
            text = "\n".join(lines)
            locks = (pattern.search(text) for pattern in _LOCK_IDS)
            self.lock_id = next((lock[1] for lock in locks if lock), self.lock_id)
            if len(self.errors) < MOST_ERRORS:
                self.errors.append(self.mask.mask_text(text)[:LONGEST_ERROR])
        changes = record.get("changes")
        if record.get("type") == "change_summary" and isinstance(changes, Mapping):
            self.counts = {
                key: count
                for terraform_key, key in _COUNTED.items()
                if isinstance(count := changes.get(terraform_key), int)
            }
        self.around.write_lines(lines, _LEVELS.get(str(record.get("@level")), "INFO"))


def _parse_line(text: str) -> Mapping[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, Mapping) and "@message" in record else None


def _format_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Return the lines of a diagnostic: its message, then its position and details."""
    yield from str(record["@message"]).splitlines()
    diagnostic = record.get("diagnostic")
    if not isinstance(diagnostic, Mapping):
        return
    position = diagnostic.get("range")
    if isinstance(position, Mapping) and isinstance(position.get("start"), Mapping):
        yield f"  on {position.get('filename')}, line {position['start'].get('line')}"
    yield from (f"  {line}" for line in str(diagnostic.get("detail") or "").splitlines())


PROGRAMS = ("terraform", "terragrunt")
PLAN, APPLY, DESTROY = "plan", "apply", "destroy"
COMMANDS = (PLAN, APPLY, DESTROY)
LOCK_FILE = ".terraform.lock.hcl"


@dataclass(frozen=True)
class TerraformJob:
    """One run of the program; `files` are texts by path below a working folder."""

    program: str
    command: str
    files: Mapping[str, str] = field(repr=False)
    folder: str = ""
    workspace: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    backend: str = field(default="", repr=False)
    variables: str = field(default="", repr=False)
    variable_files: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    plan: bytes = field(default=b"", repr=False)
    destroys: bool = False
    checks_resources: bool = False


def parse_terraform_job(params: Mapping[str, Any]) -> TerraformJob:
    """Parse the job in a task's parameters. Raises `KeyError` and `ValueError` for invalid ones."""
    inputs = params.get("inputs") or {}
    files = {_validate_path(path): str(text) for path, text in params["files"].items()}
    job = TerraformJob(
        program=_validate_choice(params.get("program") or "terraform", PROGRAMS),
        command=_validate_choice(params["command"], COMMANDS),
        files=files,
        folder=_validate_path(params.get("folder") or "."),
        workspace=_validate_argument(params["workspace"]) if params.get("workspace") else "",
        environment={str(name): str(value) for name, value in (params.get("environment") or {}).items()},
        backend=str(inputs.get("backend") or ""),
        variables=str(inputs.get("variables") or ""),
        variable_files=tuple(_validate_path(path) for path in params.get("variable_files") or ()),
        targets=tuple(_validate_argument(target) for target in params.get("targets") or ()),
        plan=base64.b64decode(params.get("plan") or "", validate=True),
        destroys=bool(params.get("destroys")) or params["command"] == DESTROY,
        checks_resources=bool(params.get("asks_what_is_there")),
    )
    if not any(PurePosixPath(path).parent == PurePosixPath(job.folder) for path in files):
        raise ValueError(f"there is no configuration file in the folder {job.folder!r}")
    return job


def write_job_files(job: TerraformJob, work: Path) -> Path:
    """Write the files below `work`, and return the program's folder."""
    for path, text in job.files.items():
        place = work / path
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.touch(mode=0o600)
        place.write_text(text)
    return work / job.folder


def _validate_path(path: Any) -> str:
    """Return a path within the configuration. Raises `ValueError`."""
    clean = PurePosixPath(str(path))
    if clean.is_absolute() or ".." in clean.parts or "\0" in str(path):
        raise ValueError(f"{path!r} is not a path within the configuration")
    return str(clean)


def _validate_argument(text: Any) -> str:
    if str(text).startswith("-") or not str(text) or "\0" in str(text):
        raise ValueError(f"{text!r} cannot be an argument of the program")
    return str(text)


def _validate_choice(text: Any, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise ValueError(f"{text!r} is none of {', '.join(choices)}")
    return str(text)


# Variables of the delegate's operator for all of Terraform, such as a mirror of its providers.
_OF_DELEGATE = re.compile(r"TF_(CLI_CONFIG_FILE|PLUGIN_CACHE_DIR|REGISTRY_\w+)\Z")
_LIMITS = f"ulimit -c 0; ulimit -n {SCRIPT_OPEN_FILES:d}; ulimit -f {TERRAFORM_FILE_BYTES // 512}"
_TO_LOG, _TO_FILE = f'{_LIMITS}; shift; exec "$@"', f'{_LIMITS}; out="$1"; shift; exec "$@" > "$out"'
_QUIET = ("-input=false", "-no-color")
STOPPED, TIMED_OUT = "STOPPED", "TIMED_OUT"


class _RunFinished(Exception):
    """Error raised to end the run with `answer`."""

    def __init__(self, answer: TaskResult) -> None:
        super().__init__(answer.status)
        self.answer = answer


def run_terraform(held_task: HeldTask, around: ExecutorContext) -> TaskResult:
    """Run the job of a task. Raises `KeyError` and `ValueError` for invalid parameters.

    After a change has begun the result records it, also after a failure.
    """
    if around.blocks_shell:
        # A configuration may run any program.
        return build_failure(
            "ShellBlocked", "this delegate does not run scripts, so it cannot run Terraform", capability=True
        )
    job = parse_terraform_job(held_task.task.params)
    with open_workspace(around.isolation) as workspace:
        run = _Run(held_task, around, job, workspace)
        if shutil.which(job.program, path=run.environment.get("PATH")) is None:
            return _build_missing_program_failure(job.program)
        try:
            return run.run()
        except _RunFinished as over:
            return over.answer
        except Exception as problem:
            is_before = isinstance(problem, CannotIsolate) and not run.result.get("begun")
            if not run.is_changing or is_before:
                raise
            # The apply may have ended: another delegate must not begin it once more.
            log.exception("Task %s failed after its change", held_task.task.id)
            return run.build_failure_after_change(str(problem) or type(problem).__name__)


def _build_missing_program_failure(program: str) -> TaskResult:
    """Return the failure of a task whose PATH has no program. Raises `ValueError` if the delegate has one."""
    # A wrong PATH of the task must not block the delegate for others.
    if shutil.which(program) is not None:
        raise ValueError(f"the variable PATH of the task has no folder with {program}")
    text = f"this delegate has no {program}: install it in its image"
    return build_failure("NoTerraform", text, capability=True)


@dataclass
class _Run:
    """One job in a temporary folder."""

    held_task: HeldTask
    around: ExecutorContext
    job: TerraformJob
    workspace: TaskWorkspace
    result: dict[str, Any] = field(default_factory=dict)
    is_changing: bool = False

    def __post_init__(self) -> None:
        """Write the files."""
        self.home = Path(self.workspace.folder)
        create = self.workspace.create_folder
        work, _, _, self.out = (Path(create(name)) for name in ("work", "data", "home", "out"))
        self.folder = write_job_files(self.job, work)
        self.workspace.lend(work)
        self.environment = _build_environment(self.job, self.home)
        self.progress = TerraformProgress(self.around)
        self.result |= {"begun": False, "ended": "", "exit_code": 0, "errors": []}

    def run(self) -> TaskResult:
        """Run all commands of the job. Raises `_RunFinished` if a command fails."""
        self._init()
        if self.job.command == PLAN:
            self._plan()
        else:
            self._change()
        return TaskResult(TaskResult.SUCCEEDED, result=self.result)

    def _init(self) -> None:
        backend = (
            [f"-backend-config={self._write_text('backend.hcl', self.job.backend)}"]
            if self.job.backend
            else []
        )
        self._run_logged("init", *_QUIET, *backend)
        self._refuse_local_state()
        if self.job.workspace:
            self._run_logged("workspace", "select", "-or-create", "-no-color", self.job.workspace)
        if self.job.checks_resources:
            self.result["holds_resources"] = _has_resources(self._run_unlogged("show", "-json", "-no-color"))

    def _refuse_local_state(self) -> None:
        """Refuse a local backend; init records the backend itself, independent of its source."""
        try:
            content = self.workspace.read(self.home / "data" / "terraform.tfstate", TERRAFORM_READ_BYTES)
            backend = json.loads(content or b"")["backend"]["type"]
        except (OSError, ValueError, KeyError, TypeError):
            backend = "local"
        if backend == "local":
            raise _RunFinished(build_failure("NoBackend", _NO_BACKEND))

    def _plan(self) -> None:
        path = self.out / "plan"
        self._run_logged("plan", "-json", *_QUIET, f"-out={path}", *self._list_flags(), *self._list_inputs())
        text = self._run_unlogged("show", "-no-color", str(path))
        self.around.write_lines(text.splitlines())
        plan = self.workspace.read(path, TERRAFORM_PLAN_BYTES + 1)
        if plan is None:
            raise _RunFinished(
                build_failure("NoPlan", f"{self.job.program} plan succeeded without writing a plan")
            )
        if len(plan) > TERRAFORM_PLAN_BYTES:
            raise _RunFinished(
                build_failure("PlanTooLarge", f"the plan is larger than {TERRAFORM_PLAN_BYTES}")
            )
        lock = self._read(self.folder / LOCK_FILE)
        self.result |= {
            "plan": base64.b64encode(plan).decode(),
            "lock": lock,
            "words": self.around.mask.mask_text(text)[:TERRAFORM_PLAN_TEXT_CHARACTERS],
            "counts": self.progress.counts,
        }

    def _change(self) -> None:
        how = (
            [str(self._write_plan())]
            if self.job.plan
            else ["-auto-approve", *self._list_flags(), *self._list_inputs()]
        )
        self.is_changing = True
        self._run_logged(APPLY, "-json", *_QUIET, *how)
        self.result["begun"] = True
        self.result["counts"] = self.progress.counts
        if self.job.command == APPLY:
            text = self._run_unlogged("output", "-json", "-no-color")
            if len(text) > SCRIPT_OUTPUTS_BYTES:
                too_large = f"the outputs are larger than {SCRIPT_OUTPUTS_BYTES}"
                raise _RunFinished(self.build_failure_after_change(too_large))
            self.result["outputs"] = _parse_outputs(text, self.around)

    def _list_flags(self) -> list[str]:
        return ["-destroy"] if self.job.destroys else []

    def _list_inputs(self) -> list[str]:
        files = [str(self.home / "work" / path) for path in self.job.variable_files]
        if self.job.variables:
            files.append(str(self._write_text("slipway.tfvars", self.job.variables)))
        return [
            *(f"-var-file={path}" for path in files),
            *(f"-target={target}" for target in self.job.targets),
        ]

    def _write_plan(self) -> Path:
        return Path(self.workspace.write("plan", self.job.plan))

    def _write_text(self, name: str, text: str) -> Path:
        return Path(self.workspace.write(name, text))

    def _run_logged(self, *arguments: str) -> None:
        self.around.write_lines([f"$ {self.job.program} {' '.join(self._shorten_paths(arguments))}"])
        self._check_exit(self._call(_TO_LOG, "-", *arguments, listener=self.progress), arguments[0])

    def _shorten_paths(self, arguments: tuple[str, ...]) -> list[str]:
        return [argument.replace(f"{self.home}/", "") for argument in arguments]

    def _run_unlogged(self, *arguments: str) -> str:
        """Return the output of a command without logging it."""
        path = self.out / "printed"
        self._check_exit(self._call(_TO_FILE, str(path), *arguments, listener=self.around), arguments[0])
        return self._read(path)

    def _read(self, path: Path) -> str:
        """Return a text from the task's folder, or an empty text. Raises `_RunFinished` above the size limit.

        All tasks share the memory of the agent.
        """
        content = self.workspace.read(path, TERRAFORM_READ_BYTES + 1) or b""
        if len(content) > TERRAFORM_READ_BYTES:
            text = f"{path.name} is larger than {TERRAFORM_READ_BYTES}"
            if self.is_changing:
                raise _RunFinished(self.build_failure_after_change(text))
            raise _RunFinished(self._build_failure("OutputsTooLarge", text))
        return content.decode("utf-8", "replace")

    def _call(self, script: str, out: str, *arguments: str, listener: OutputListener) -> ProcessExit:
        command = ["/bin/sh", "-c", script, "slipway", out, self.job.program, *arguments]
        program = ProcessCommand(self.workspace, self.folder, command, self.environment)
        # Terraform finishes its current operations and writes its state; its providers ignore this signal.
        stop = StopSignal(signal.SIGINT, self.around.patience_seconds)
        return run_process(self.held_task, listener, program, stop)

    def _check_exit(self, process_exit: ProcessExit, command: str) -> None:
        """Raise `_RunFinished` if the command failed."""
        if not (process_exit.exit_code or process_exit.was_stopped or process_exit.timed_out):
            return
        if process_exit.was_stopped and not self.is_changing:
            raise _RunFinished(build_aborted())
        # A failure with other words may have changed something too.
        progress = self.progress
        self.result["begun"] = self.is_changing and (progress.changes_anything or not progress.has_output)
        self.result["ended"] = (
            STOPPED if process_exit.was_stopped else TIMED_OUT if process_exit.timed_out else ""
        )
        self.result |= {
            "exit_code": process_exit.exit_code,
            "command": command,
            "errors": self.progress.errors,
            "lock_id": self.progress.lock_id,
            "counts": self.progress.counts,
        }
        raise _RunFinished(
            self._build_failure(
                "ProgramFailed", f"{self.job.program} {command} ended with exit code {process_exit.exit_code}"
            )
        )

    def build_failure_after_change(self, text: str) -> TaskResult:
        """Return a failure that came after the change, which a rollback undoes."""
        masked_text = self.around.mask.mask_text(text)
        self.result |= {"begun": True, "exit_code": 1, "command": "output", "errors": [masked_text]}
        return self._build_failure("ProgramFailed", masked_text)

    def _build_failure(self, code: str, text: str) -> TaskResult:
        return TaskResult(TaskResult.FAILED, result=self.result, error=build_failure(code, text).error)


def _build_environment(job: TerraformJob, home: Path) -> dict[str, str]:
    """Return the environment variables of a script, with those of Terraform and the working folder."""
    delegate_variables = {name: value for name, value in os.environ.items() if _OF_DELEGATE.match(name)}
    if not Path(delegate_variables.get("TF_CLI_CONFIG_FILE", "")).is_file():
        delegate_variables.pop("TF_CLI_CONFIG_FILE", None)
    variables = build_script_environment(
        os.environ, f"{home}/home", {**delegate_variables, **job.environment}
    )
    return {
        **variables,
        "TF_DATA_DIR": str(home / "data"),
        "TF_IN_AUTOMATION": "1",
        "CHECKPOINT_DISABLE": "1",
        # Terragrunt must not prompt either; the older and the newer variable.
        "TERRAGRUNT_NON_INTERACTIVE": "true",
        "TG_NON_INTERACTIVE": "true",
    }


def _has_resources(text: str) -> bool:
    """Return whether a state contains resources."""
    try:
        values = json.loads(text).get("values") or {}
    except (ValueError, AttributeError):
        return False
    root = values.get("root_module") or {}
    return bool(root.get("resources") or root.get("child_modules"))


def _parse_outputs(text: str, around: ExecutorContext) -> dict[str, dict[str, Any]]:
    """Return the outputs by name; an output that contains a given secret is sensitive."""
    outputs: Mapping[str, Any] = json.loads(text)
    return {
        str(name): {
            "value": output["value"],
            "is_secret": bool(output.get("sensitive")) or _contains_secret(output, around),
        }
        for name, output in outputs.items()
    }


def _contains_secret(output: Mapping[str, Any], around: ExecutorContext) -> bool:
    text = output["value"] if isinstance(output["value"], str) else json.dumps(output["value"])
    return around.mask.mask_text(text) != text


_NO_BACKEND = (
    "the configuration keeps its state in a local file, which is gone with the task: name a backend that "
    'lies elsewhere, such as terraform { backend "s3" {} }, and its settings under backendConfig'
)
