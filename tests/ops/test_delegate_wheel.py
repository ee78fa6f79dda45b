"""The wheel of the delegate's program: the agent and what it imports, and nothing of the manager."""

import subprocess
import sys
import zipfile
from pathlib import Path

from delegates.agent import VERSION
from delegates.install.shell import WHEEL

ROOT = Path(__file__).resolve().parents[2]


def build(folder: Path) -> Path:
    command = [sys.executable, str(ROOT / "deploy/delegate/build_wheel.py"), str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return Path(ran.stdout.strip())


def test_the_wheel_holds_the_program_and_its_requirements(tmp_path: Path) -> None:
    path = build(tmp_path / "one")
    assert path.name == WHEEL
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        metadata = archive.read(f"slipway_delegate-{VERSION}.dist-info/METADATA").decode()
        scripts = archive.read(f"slipway_delegate-{VERSION}.dist-info/entry_points.txt").decode()
    assert "slipway-delegate = delegates.agent.__main__:run" in scripts
    assert "Requires-Dist: boto3>=1.44" in metadata
    for name in ("delegates/agent/__main__.py", "aws/clients.py", "guards/text.py", "delegates/__init__.py"):
        assert name in names
    packages = {tuple(name.split("/")[:2]) for name in names if name.startswith("delegates/")}
    assert packages == {("delegates", "__init__.py"), ("delegates", "agent")}
    assert path.read_bytes() == build(tmp_path / "two").read_bytes()
