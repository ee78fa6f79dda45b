"""Programs that others wrote, and the environment in which they find a sandbox."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contract.endpoint import PRETEND_KEY

INSTALL_THE_CLI = "AWS CLI v2 is not installed (Debian: apt-get install awscli)"
# Debian's own before whatever Python environments put on the path.
PLACES = ("/usr/bin/aws", "/usr/local/bin/aws", "aws")
# The package brings a script, but where it lands depends on how it was installed.
ECS_DEPLOY = (
    sys.executable,
    "-W",
    "ignore",
    "-c",
    "import sys; from ecs_deploy.cli import ecs; sys.exit(ecs())",
)


@dataclass(frozen=True)
class Ended:
    """The exit status and output of a program."""

    status: int
    output: str

    @property
    def json(self) -> Any:
        return json.loads(self.output)


@dataclass(frozen=True)
class Program:
    """A command with the environment in which it finds the sandbox."""

    command: tuple[str, ...]
    environment: Mapping[str, str]

    def __call__(self, *arguments: str, status: int = 0, seconds: float = 60) -> Ended:
        """Run it to its end and check its exit status."""
        process = subprocess.run(
            [*self.command, *arguments],
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert process.returncode == status, process.stdout
        return Ended(process.returncode, process.stdout)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Leave it running; whoever starts it ends it."""
        return subprocess.Popen(
            [*self.command, *arguments],
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def environment_of(home: Path, url: str, *, key: str = PRETEND_KEY) -> dict[str, str]:
    """Return the environment of an AWS program: endpoint, region and access key."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_PAGER": "",
        # Lines as they come, though nobody sits at a terminal.
        "PYTHONUNBUFFERED": "1",
        "LC_ALL": "C.UTF-8",
    }


def find_cli() -> str | None:
    """Return the path of AWS CLI version 2, or None."""
    for place in PLACES:
        path = shutil.which(place)
        version = subprocess.run([path, "--version"], capture_output=True, text=True) if path else None
        if path and version and version.stdout.startswith("aws-cli/2"):
            return path
    return None
