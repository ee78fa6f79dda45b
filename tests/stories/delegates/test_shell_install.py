"""A delegate installed from its wheel below a folder, without systemd, connects to its manager."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from delegates.install.shell import INSTALL_FILE, WHEEL
from tests.faults.killable_process import Part
from tests.fixtures.agents import Api
from tests.fixtures.processes import ROOT

pytestmark = pytest.mark.django_db(transaction=True)


def install(folder: Path, root: Path) -> str:
    """Run the script of the files, with the packages of this environment in place of a registry's."""
    environment = {
        **os.environ,
        "SLIPWAY_DELEGATE_ROOT": str(root),
        "PYTHON": sys.executable,
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PYTHONPATH": sysconfig.get_path("purelib"),
    }
    command = ["sh", INSTALL_FILE, str(folder / WHEEL)]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.timeout(180)
def test_the_wheel_of_the_shell_install_connects_and_is_upgraded_in_place(api: Api, tmp_path: Path) -> None:
    name, folder, root = "on-a-machine", tmp_path / "files", tmp_path / "root"
    body = {"name": name, "kind": "SHELL_SCRIPT", "token_id": api.token(f"of {name}")["id"]}
    spec = api("POST", "delegates/task-spec", body)
    folder.mkdir()
    for file, text in spec["files"].items():
        (folder / file).write_text(text)
    build = [sys.executable, str(ROOT / "deploy/delegate/build_wheel.py"), str(folder)]
    subprocess.run(build, check=True, capture_output=True)
    for _ in range(2):
        assert "slipway-delegate 0." in install(folder, root)
    settings = root / "etc/slipway-delegate"
    assert (settings / "delegate-token.txt").stat().st_mode & 0o777 == 0o600
    environment = (settings / "delegate.env").read_text()
    # As the unit does, below the folder.
    start = f"set -a; . {settings}/delegate.env; HARNESS_TOKEN_FILE={settings}/delegate-token.txt"
    start += f"; SLIPWAY_DELEGATE_HOME={root}/var/lib/slipway-delegate; SLIPWAY_DELEGATE_PORT=0"
    start += f"; exec {root}/opt/slipway-delegate/bin/slipway-delegate"
    machine = {"PATH": os.environ["PATH"], "PYTHONPATH": sysconfig.get_path("purelib")}
    agent = Part("output", ["sh", "-c", start], environment=machine, folder=tmp_path)
    agent.start()
    try:
        row = api.until(name, "CONNECTED")
        assert (row["kind"], "DELEGATE_TYPE=SHELL_SCRIPT" in environment) == ("SHELL_SCRIPT", True)
        agent.end(within=15)
        api.until(name, "DISCONNECTED")
    finally:
        agent.kill()
