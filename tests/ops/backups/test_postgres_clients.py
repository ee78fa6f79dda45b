"""The client of PostgreSQL that fits the server, and what it learns of the environment."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ops.backups import postgres_clients
from ops.backups.manifests import BackupError
from ops.backups.postgres_clients import LAST_OLD_VERSION, find_client, fits_server, run_client
from ops.doctor import OLDEST_POSTGRESQL

ROOT = Path(__file__).resolve().parents[3]
Install = Callable[[int], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a `pg_dump` of a major version, which writes what it is given into files beside itself."""
    monkeypatch.setattr(postgres_clients, "VERSION_FOLDERS", tmp_path)
    monkeypatch.setenv("PATH", "/nonexistent")

    def write(version: int) -> Path:
        program = tmp_path / str(version) / "bin" / "pg_dump"
        program.parent.mkdir(parents=True)
        program.write_text(
            "#!/bin/sh\n"
            f'[ "$1" = --version ] && echo "pg_dump (PostgreSQL) {version}.4 (Debian)" && exit\n'
            f"export -p > {program.parent}/variables\n"
            f'echo "$@" > {program.parent}/arguments\n'
            f'[ -z "$PGSERVICEFILE" ] || /bin/cp -p "$PGSERVICEFILE" {program.parent}/services\n'
        )
        program.chmod(0o755)
        return program

    return write


@pytest.mark.parametrize(("server", "client"), [(14, 16), (16, 16), (17, 18), (18, 18)])
def test_the_oldest_client_that_fits_the_server_is_taken(install: Install, server: int, client: int) -> None:
    programs = {version: install(version) for version in (13, 16, 18)}
    assert find_client("pg_dump", server) == programs[client]


def test_without_a_client_the_answer_names_the_package(install: Install) -> None:
    with pytest.raises(BackupError, match=r"there is none\. Install postgresql-client-16 "):
        find_client("pg_dump", 14)


def test_a_client_that_is_too_old_or_writes_what_the_server_refuses_is_named(install: Install) -> None:
    install(15)
    install(17)
    with pytest.raises(
        BackupError, match=r"PostgreSQL 16 needs pg_dump of version 16: .*15, .*is version 17"
    ):
        find_client("pg_dump", 16)
    with pytest.raises(BackupError, match=r"of version 18 or newer: .* Install postgresql-client-18 "):
        find_client("pg_dump", 18)


def test_a_client_learns_the_password_and_no_secret_of_slipway(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIELD_ENCRYPTION_KEY", "the-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-key")
    monkeypatch.setenv("PGSSLROOTCERT", "/certificates/rds.pem")
    program = install(16)
    run_client(program, parameters={"dbname": "slipway", "password": "opens-the-database"})

    variables = (program.parent / "variables").read_text()
    assert "the-key" not in variables
    assert "opens-the-database" in variables
    assert "/certificates/rds.pem" in variables


def test_no_password_is_among_the_arguments(install: Install) -> None:
    program = install(16)
    passwords = {"password": "opens-the-database", "sslpassword": "opens = the key"}
    run_client(program, "--version-of", parameters={"host": "db", "sslkey": "/run/key.pem", **passwords})

    arguments = (program.parent / "arguments").read_text()
    assert arguments == "--version-of --dbname=host=db sslkey=/run/key.pem service=slipway\n"
    services = program.parent / "services"
    assert services.read_text() == "[slipway]\nsslpassword=opens = the key\n"
    assert services.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("password", ["ends with a space ", "two\nhost=elsewhere"])
def test_a_password_that_a_service_file_cannot_have_is_refused(install: Install, password: str) -> None:
    with pytest.raises(BackupError, match="one line without a space at its end"):
        run_client(install(16), parameters={"dbname": "slipway", "sslpassword": password})


def test_the_image_has_a_client_for_every_server_that_slipway_supports_and_suggests() -> None:
    script = (ROOT / "deploy" / "images" / "install.sh").read_text()
    clients = [int(version) for version in re.findall(r"postgresql-client-(\d+)", script)]
    template = (ROOT / "deploy" / "cloudformation" / "slipway.yaml").read_text()
    compose = (ROOT / "deploy" / "compose.yaml").read_text()
    suggested = [*re.findall(r"Engine: postgres\n\s+EngineVersion: \"(\d+)", template)]
    suggested += re.findall(r"image: postgres:(\d+)", compose)

    assert len(suggested) == 2
    for server in {*range(OLDEST_POSTGRESQL, LAST_OLD_VERSION + 1), *map(int, suggested), 17, 18}:
        assert any(fits_server(client, server) for client in clients), server
