"""What is in the way of a start is said in a sentence."""

import os
import socket
from pathlib import Path

import pytest

from ops import valkey
from ops.state_folder import CannotStartError, lock_state_folder, require_free_port
from tests.ports import free_port


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
