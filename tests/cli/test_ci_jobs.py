"""The shell commands of the documented CI jobs run as they are written."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from deployments.models import Execution
from tests.fixtures.command_line import CommandLine
from tests.fixtures.engine_driver import Drive
from tests.fixtures.processes import ROOT

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = (ROOT / "docs" / "how-to" / "deploy-from-ci.md").read_text()


def read_block(title: str) -> str:
    """Return the code block with a title."""
    [block] = re.findall(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```', PAGE, re.DOTALL | re.MULTILINE)
    return str(block)


def read_scripts() -> dict[str, str]:
    """Return the shell commands of each CI system."""
    github = yaml.safe_load(read_block(".github/workflows/deploy.yml"))
    gitlab = yaml.safe_load(read_block(".gitlab-ci.yml"))
    [jenkins] = re.findall(r"sh '''(.*?)'''", read_block("Jenkinsfile"), re.DOTALL)
    [last] = re.findall(r"^```bash\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return {
        "github": github["jobs"]["deploy"]["steps"][0]["run"],
        "gitlab": "\n".join(gitlab["deploy"]["script"]),
        "jenkins": jenkins,
        "by exit code": last,
    }


VARIABLES = {
    "github": {"TAG": "crash", "GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "1"},
    "gitlab": {"TAG": "crash", "CI_JOB_ID": "8"},
    "jenkins": {"GIT_COMMIT": "crash", "BUILD_TAG": "jenkins-deploy-9"},
}


@pytest.mark.parametrize(
    ("system", "key"),
    [("github", "github-7-1"), ("gitlab", "gitlab-8"), ("jenkins", "jenkins-jenkins-deploy-9")],
)
def test_a_documented_job_fails_with_the_deployment(
    deployer_line: CommandLine, drive: Drive, tmp_path: Path, system: str, key: str
) -> None:
    # The run of this job has ended before: the command finds it by its key, and follows it.
    drive.run("1.27")
    started = deployer_line.run("run", "rolling_demo", "--tag", "crash", "--idempotency-key", key)
    assert started.returncode == 0, started.stderr
    drive.until_over(Execution.objects.get(number=2))

    answer = run_script(deployer_line, tmp_path, read_scripts()[system], VARIABLES[system])

    assert answer.returncode == 11, answer.stderr
    assert "rolling_demo#2 FAILED, outcome ROLLED_BACK" in answer.stdout
    assert Execution.objects.count() == 2


def test_the_script_by_exit_code_is_valid_shell() -> None:
    subprocess.run(["bash", "-n", "-c", read_scripts()["by exit code"]], check=True)


def run_script(
    line: CommandLine, folder: Path, script: str, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a script as a CI system does, with `slipway` on its path."""
    programs = folder / "bin"
    programs.mkdir()
    program = programs / "slipway"
    program.write_text(f'#!/bin/sh\nexec {" ".join(line.program)} "$@"\n')
    program.chmod(0o755)
    environment = {**line.environment, **variables}
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
