"""`make run` for real: ready, kept alive, ended in order, nothing left behind."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from ops.supervision import valkey
from ops.supervision.supervisor import CannotStartError, lock_state_folder, require_free_port
from tests.fixtures.processes import ROOT, wait_until
from tests.ports import free_port

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

CHILDREN = {
    "valkey": "valkey",
    "sandbox": "sandbox",
    "web": "uvicorn",
    # The beat's command speaks of "the worker" as well.
    "worker": " worker --loglevel ",
    "beat": " beat --loglevel ",
}


@dataclass(frozen=True)
class Installation:
    """A state folder with ports of its own."""

    environment: Mapping[str, str]
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.environment['PORT']}"

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "ops"], cwd=ROOT, env=dict(self.environment), stdout=log, stderr=log
            )

    def is_ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return answer.status == 200
        except (URLError, OSError):
            return False

    def is_welcoming(self, times: int) -> bool:
        return self.log.read_text().count("Slipway is ready after") == times


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = tmp_path_factory.mktemp("installation")
    own_names = ("DATABASE_URL", "REDIS_URL", "PUBLIC_URL", "SLIPWAY_TESTS_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in own_names}
    environment |= {
        "DJANGO_SETTINGS_MODULE": "tests.secret_watch.settings",
        "SLIPWAY_HOME": str(folder / "state"),
        "PORT": str(free_port()),
        "SLIPWAY_SANDBOX_PORT": str(free_port()),
        "SLIPWAY_DEMO_PASSWORD": "a password for the demo",
        "SLIPWAY_DEMO_API_KEY": "slp_pat_a_key_for_the_demo",
    }
    return Installation(environment, folder / "log")


@pytest.fixture
def supervisor(installation: Installation) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor that has said that everything is ready."""
    welcomes = (
        installation.log.read_text().count("Slipway is ready after") if installation.log.exists() else 0
    )
    process = installation.start()
    try:
        wait_until(
            lambda: process.poll() is not None or installation.is_welcoming(welcomes + 1), "the welcome", 90
        )
        assert process.poll() is None, installation.log.read_text()
        assert "Not ready" not in installation.log.read_text()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def children_of(pid: int) -> list[int]:
    """All processes below this one."""
    listing = Path(f"/proc/{pid}/task/{pid}/children")
    children = [int(child) for child in listing.read_text().split()] if listing.exists() else []
    return children + [below for child in children for below in children_of(child)]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def find_child(supervisor: int, word: str) -> int:
    """The process of that program itself, not one that it forked; 0 when there is none."""
    direct = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return next((int(child) for child in direct if word in command_of(int(child))), 0)


def is_killed(installation: Installation, supervisor: int, name: str) -> bool:
    """Kill that program until the supervisor has noticed: the one that was found may have ended by itself."""
    if f"{name} was ended by SIGKILL; starting it again" in installation.log.read_text():
        return True
    if pid := find_child(supervisor, CHILDREN[name]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return False


@needs_proc
@pytest.mark.timeout(240)
def test_it_survives_the_death_of_each_program_and_leaves_nothing_behind(
    installation: Installation, supervisor: subprocess.Popen[bytes]
) -> None:
    assert installation.is_ready()
    assert str(ROOT) in command_of(find_child(supervisor.pid, CHILDREN["worker"]))

    for name, word in CHILDREN.items():
        wait_until(partial(is_killed, installation, supervisor.pid, name), f"the end of {name} noticed")
        wait_until(partial(find_child, supervisor.pid, word), f"the restart of {name}")
        wait_until(installation.is_ready, f"being ready after {name} died", 60)

    everything = children_of(supervisor.pid)
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(15) == 0
    assert [command_of(pid) for pid in everything if is_alive(pid)] == []


@needs_proc
@pytest.mark.timeout(240)
def test_a_killed_supervisor_takes_everything_along_and_its_state_is_kept(
    installation: Installation, supervisor: subprocess.Popen[bytes]
) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "ops"],
        cwd=ROOT,
        env=dict(installation.environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 1
    assert "is running on" in second.stdout

    home = Path(installation.environment["SLIPWAY_HOME"])
    state_files = [path for path in home.rglob("*") if path.is_file() and home / "static" not in path.parents]
    assert len(state_files) > 3
    assert [path for path in state_files if path.stat().st_mode & 0o077] == []

    everything = children_of(supervisor.pid)
    supervisor.kill()
    supervisor.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in everything), "the end of all children")


@needs_proc
@pytest.mark.timeout(900)
def test_a_web_server_that_no_longer_answers_is_replaced(
    installation: Installation, supervisor: subprocess.Popen[bytes]
) -> None:
    frozen = find_child(supervisor.pid, CHILDREN["web"])
    os.kill(frozen, signal.SIGSTOP)

    wait_until(lambda: find_child(supervisor.pid, CHILDREN["web"]) not in (0, frozen), "another one", 90)
    wait_until(installation.is_ready, "its answer", 60)
    log = installation.log.read_text()
    assert "web runs but did not answer /healthz 3 times within 10 s; it is started again" in log


def test_a_state_folder_belongs_to_one_supervisor(tmp_path: Path) -> None:
    with (
        lock_state_folder(tmp_path),
        pytest.raises(CannotStartError, match=f"process {os.getpid()}"),
        lock_state_folder(tmp_path),
    ):
        pass


def test_a_state_folder_is_free_again_afterwards(tmp_path: Path) -> None:
    with lock_state_folder(tmp_path / "new"):
        pass
    with lock_state_folder(tmp_path / "new"):
        pass


def test_a_state_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with (
        pytest.raises(CannotStartError, match="SLIPWAY_HOME"),
        lock_state_folder(tmp_path / "file" / "state"),
    ):
        pass


def test_a_taken_port_is_named_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CannotStartError, match=rf"Port {port} .*make run PORT="):
            require_free_port(port, "PORT")


def test_a_port_that_does_not_exist_is_refused() -> None:
    with pytest.raises(CannotStartError, match="65536"):
        require_free_port(65536, "SLIPWAY_SANDBOX_PORT")


def test_a_free_port_is_fine() -> None:
    require_free_port(free_port(), "PORT")


def test_the_broker_listens_in_the_state_folder(tmp_path: Path) -> None:
    assert valkey.get_socket_path(tmp_path) == tmp_path / "valkey.sock"


def test_a_state_folder_with_a_long_name_has_its_socket_in_a_short_one(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 100)
    home.mkdir()

    valkey.create_folders(home)
    path = valkey.get_socket_path(home)

    assert len(os.fsencode(path)) <= valkey.MAX_SOCKET_PATH_LENGTH
    assert path == valkey.get_socket_path(home)
    assert path != valkey.get_socket_path(home.with_name("y" * 100))
    assert path.parent.stat().st_mode & 0o077 == 0
    path.parent.rmdir()


def test_a_socket_folder_open_to_others_is_refused(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 100)
    folder = valkey.get_socket_path(home).parent
    folder.mkdir(mode=0o755)
    try:
        with pytest.raises(valkey.UnsafeFolderError, match="REDIS_URL"):
            valkey.create_folders(home)
    finally:
        folder.rmdir()


def test_other_users_of_the_machine_are_kept_out(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    database = tmp_path / "slipway.sqlite3"
    database.touch(mode=0o644)
    with lock_state_folder(tmp_path):
        assert (tmp_path.stat().st_mode & 0o777, database.stat().st_mode & 0o777) == (0o700, 0o600)
