"""A migration that has landed stays as it is, because databases and backups know it by its name."""

from pathlib import Path

import pytest

from tests.ops.frozen_migrations import LIST, ROOT, find_problems, hash_migrations, main, read_list


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    folder = tmp_path / "deployments" / "migrations"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "0001_initial.py").write_text("first")
    return folder


def test_no_migration_was_changed_and_new_ones_are_frozen() -> None:
    present, frozen = hash_migrations(ROOT), read_list(LIST)
    assert find_problems(present, frozen) == []
    assert present == frozen, "Run make freeze-migrations, and commit the list."


def test_a_new_migration_is_added_and_a_changed_one_refused(
    tmp_path: Path, migrations: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "list.txt"
    listed.touch()
    assert main(tmp_path, listed) == 0
    (migrations / "0002_priority.py").write_text("second")
    assert main(tmp_path, listed) == 0
    assert [Path(path).name for path in read_list(listed)] == ["0001_initial.py", "0002_priority.py"]

    before = listed.read_text()
    (migrations / "0001_initial.py").write_text("edited")
    (migrations / "0002_priority.py").unlink()
    assert main(tmp_path, listed) == 1
    refusal = capsys.readouterr().err
    assert "deployments/migrations/0001_initial.py was changed" in refusal
    assert "deployments/migrations/0002_priority.py is gone" in refusal
    assert listed.read_text() == before
