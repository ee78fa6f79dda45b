"""The agent of the release before: a copy of its code that lacks what this release has brought."""

import shutil
from pathlib import Path

from tests.fixtures.processes import ROOT

VERSION = "0.0.9"
_PACKAGES = ("aws", "guards", "delegates/agent")
_AGENT = "delegates/agent"
# Lines that the release before does not have: file, line, and what stands there in place of it.
_CHANGES = (
    (f"{_AGENT}/__init__.py", 'VERSION = "', f'VERSION = "{VERSION}"\n'),
    # It does not say how it isolates scripts.
    (f"{_AGENT}/registration.py", '        "isolation": ', ""),
    # It does not say what its release can do.
    (f"{_AGENT}/registration.py", '        "features": ', ""),
    # It has no stable id.
    (f"{_AGENT}/registration.py", '        "stable_id": ', ""),
    (f"{_AGENT}/registration.py", '        "process_id": ', ""),
    # It ignores fields that it does not know.
    (f"{_AGENT}/tasks.py", '        trace_context=body.get("trace_context")', ""),
    # A kind of task and an operation of AWS that it does not know.
    (f"{_AGENT}/executors/dispatch.py", '    "doctor": run_doctor,', ""),
    (f"{_AGENT}/executors/dispatch.py", '    "http": run_http,', ""),
    ("aws/policies.py", '            "ecs:TagResource": ', ""),
)


def copy_former_agent(folder: Path) -> Path:
    """Copy the agent and what it imports into a new folder without these features, and return the folder."""
    for package in _PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "delegates/__init__.py", folder / "delegates/__init__.py")
    for name, beginning, replacement in _CHANGES:
        path = folder / name
        lines = path.read_text().splitlines(keepends=True)
        places = [index for index, line in enumerate(lines) if line.startswith(beginning)]
        assert len(places) == 1, f"{name} has {len(places)} lines that begin with {beginning!r}"
        lines[places[0]] = replacement
        path.write_text("".join(lines))
    return folder
