"""What a Terraform task asks for: the files, the folder among them, the inputs, and a plan to apply."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

PROGRAMS = ("terraform", "terragrunt")
PLAN, APPLY, DESTROY = "plan", "apply", "destroy"
COMMANDS = (PLAN, APPLY, DESTROY)
LOCK_FILE = ".terraform.lock.hcl"


@dataclass(frozen=True)
class Job:
    """One run of the program; `files` go by paths below a folder of their own."""

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
    asks_what_is_there: bool = False


def read_job(params: Mapping[str, Any]) -> Job:
    """The job of a task's parameters. Raises `KeyError` and `ValueError` for what cannot be used."""
    inputs = params.get("inputs") or {}
    files = {_inside(path): str(text) for path, text in params["files"].items()}
    job = Job(
        program=_one_of(params.get("program") or "terraform", PROGRAMS),
        command=_one_of(params["command"], COMMANDS),
        files=files,
        folder=_inside(params.get("folder") or "."),
        workspace=_argument(params["workspace"]) if params.get("workspace") else "",
        environment={str(name): str(value) for name, value in (params.get("environment") or {}).items()},
        backend=str(inputs.get("backend") or ""),
        variables=str(inputs.get("variables") or ""),
        variable_files=tuple(_inside(path) for path in params.get("variable_files") or ()),
        targets=tuple(_argument(one) for one in params.get("targets") or ()),
        plan=base64.b64decode(params.get("plan") or "", validate=True),
        destroys=bool(params.get("destroys")) or params["command"] == DESTROY,
        asks_what_is_there=bool(params.get("asks_what_is_there")),
    )
    if not any(PurePosixPath(path).parent == PurePosixPath(job.folder) for path in files):
        raise ValueError(f"no file of the configuration lies in the folder {job.folder!r}")
    return job


def lay_out(job: Job, work: Path) -> Path:
    """Write the files below `work`; gives back the folder in which the program runs."""
    for path, text in job.files.items():
        place = work / path
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.touch(mode=0o600)
        place.write_text(text)
    return work / job.folder


def _inside(path: Any) -> str:
    """A path that stays where it belongs."""
    clean = PurePosixPath(str(path))
    if clean.is_absolute() or ".." in clean.parts or "\0" in str(path):
        raise ValueError(f"{path!r} is not a path within the configuration")
    return str(clean)


def _argument(text: Any) -> str:
    if str(text).startswith("-") or not str(text) or "\0" in str(text):
        raise ValueError(f"{text!r} cannot be an argument of the program")
    return str(text)


def _one_of(text: Any, known: tuple[str, ...]) -> str:
    if text not in known:
        raise ValueError(f"{text!r} is none of {', '.join(known)}")
    return str(text)
