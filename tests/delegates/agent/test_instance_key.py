"""The key pair and the stable id of an agent: kept in its folder, for itself alone."""

import stat
from pathlib import Path

import pytest

from delegates.agent.identity import ID_FILE, KEY_FILE, load_instance_key, load_stable_id


def test_a_restart_finds_the_key_pair_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    first = load_instance_key(tmp_path)
    public, signature = first.public, first.sign(b"text")
    first.close()
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    reloaded_key = load_instance_key(tmp_path)
    assert (reloaded_key.public, reloaded_key.sign(b"text")) == (public, signature)
    reloaded_key.close()


def test_a_second_process_in_the_same_folder_is_another_instance(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = load_instance_key(tmp_path), load_instance_key(tmp_path)
    assert first.public != second.public
    assert "Another process" in caplog.text
    first.close()


@pytest.mark.parametrize("content", [b"", b"letmein", b"-----BEGIN PRIVATE KEY-----\nMC4="])
def test_a_damaged_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / KEY_FILE).write_bytes(content)
    first = load_instance_key(tmp_path)
    public = first.public
    first.close()
    reloaded_key = load_instance_key(tmp_path)
    assert reloaded_key.public == public
    reloaded_key.close()


def test_where_nothing_can_be_written_the_key_pair_is_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / KEY_FILE).mkdir()
    assert load_instance_key(tmp_path).public
    assert "a restart creates a new one" in caplog.text


def test_a_restart_finds_the_stable_id_again(tmp_path: Path) -> None:
    key = load_instance_key(tmp_path)
    stable_id = load_stable_id(tmp_path, key)
    assert len(stable_id) == 32
    assert load_stable_id(tmp_path, key) == stable_id
    key.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [ID_FILE, KEY_FILE]


def test_a_second_process_in_the_same_folder_has_no_stable_id(tmp_path: Path) -> None:
    first, second = load_instance_key(tmp_path), load_instance_key(tmp_path)
    assert load_stable_id(tmp_path, first)
    assert load_stable_id(tmp_path, second) == ""
    first.close()


@pytest.mark.parametrize("content", [b"", b"letmein", b"\xff" * 32, b"A" * 32])
def test_a_damaged_id_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ID_FILE).write_bytes(content)
    key = load_instance_key(tmp_path)
    stable_id = load_stable_id(tmp_path, key)
    assert len(stable_id) == 32
    assert load_stable_id(tmp_path, key) == stable_id
    key.close()


def test_where_no_id_can_be_written_there_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / ID_FILE).mkdir()
    key = load_instance_key(tmp_path)
    assert load_stable_id(tmp_path, key) == ""
    assert "a moved instance is a new one" in caplog.text
    key.close()
