"""The command line as an installed package."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from cli.version import get_version
from tests.fixtures.command_line import CommandLine
from tests.fixtures.processes import ROOT


def test_a_package_contains_every_folder_of_the_command_line_and_no_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "cli").rglob("__init__.py")}

    assert set(project["tool"]["setuptools"]["packages"]) == folders
    assert project["project"]["scripts"] == {"slipway": "cli.main:main"}
    assert any(name.startswith("typer") for name in project["project"]["optional-dependencies"]["cli"])


def test_the_package_runs_without_the_checkout(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "cli", tmp_path / "cli", ignore=shutil.ignore_patterns("__pycache__"))

    shown = subprocess.run(
        [sys.executable, "-P", "-m", "cli", "--help"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )

    assert "Run a pipeline" in shown.stdout


def test_the_version_and_the_completion_need_no_sign_in(command_line: CommandLine) -> None:
    version = command_line.run("--version")
    completion = command_line.run(
        "--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
    )

    words = {"COMP_WORDS": "slipway environ", "COMP_CWORD": "1", "_SLIPWAY_COMPLETE": "complete_bash"}

    assert version.stdout == f"slipway {get_version()}\n"
    assert command_line.run(**words).stdout.split() == ["environments"]
    assert "_slipway_completion" in completion.stdout
