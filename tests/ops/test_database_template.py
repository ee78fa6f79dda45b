"""The test database is migrated once for all runs of the same code, and anew for any other."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from django.core.management import get_commands

from tests.database import template


@pytest.fixture(autouse=True)
def _nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(template, "ROOT", tmp_path)


def change_migration(root: Path, content: str) -> None:
    folder = root / "rbac" / "migrations"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "0001_initial.py").write_text(content)


def make_tables(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE made (number)")


def tables_of(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]


def test_who_begins_together_migrates_once(tmp_path: Path) -> None:
    migrated: list[Path] = []

    def fill(number: int) -> list[str]:
        database = tmp_path / f"{number}.sqlite3"
        template.fill(database, lambda: migrated.append(database) or make_tables(database))
        return tables_of(database)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(fill, range(3))) == [["made"]] * 3
    assert len(migrated) == 1


def test_other_migrations_make_another_database(tmp_path: Path) -> None:
    change_migration(tmp_path, "one")
    before = template.fingerprint()
    change_migration(tmp_path, "two")
    assert template.fingerprint() != before


def test_what_failed_halfway_is_kept_for_nobody(tmp_path: Path) -> None:
    database = tmp_path / "a.sqlite3"

    def fail() -> None:
        make_tables(database)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        template.fill(database, fail)
    template.fill(tmp_path / "b.sqlite3", lambda: make_tables(tmp_path / "b.sqlite3"))
    template.fill(tmp_path / "c.sqlite3", lambda: pytest.fail("a database of the same code was made before"))
    assert tables_of(tmp_path / "c.sqlite3") == ["made"]


def test_of_old_code_only_some_are_kept(tmp_path: Path) -> None:
    for number in range(template.KEPT + 2):
        change_migration(tmp_path, f"{number}")
        database = tmp_path / f"{number}.sqlite3"
        template.fill(database, lambda database=database: make_tables(database))  # type: ignore[misc]
    assert len(list((tmp_path / "cache" / "slipway-tests").glob("*.sqlite3"))) == template.KEPT


def test_no_command_of_an_app_hides_those_of_the_test_database() -> None:
    commands = get_commands()
    assert (commands["migrate"], commands["flush"]) == ("tests.database", "tests.database")
