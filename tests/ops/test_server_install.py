"""Installation on a server without containers: its page and its systemd unit agree with the scripts."""

import json
import os
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml
from django.conf import settings

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/how-to/install-on-a-server.md").read_text()
UNIT = "deploy/systemd/slipway@.service"


def read_unit() -> ConfigParser:
    unit = ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / UNIT)
    return unit


def test_the_guide_takes_the_steps_of_the_image_in_their_order() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    steps = re.findall(r"^    # deploy/images/install\.sh (\w+) slipway", GUIDE, flags=re.MULTILINE)
    # The guide installs Debian's packages itself: its PostgreSQL brings clients that fit.
    assert {"packages", *steps} == set(re.findall(r"install\.sh (\w+) slipway", dockerfile))
    assert steps == ["users", "python", "sources", "static"]


def test_every_file_that_the_guide_names_exists() -> None:
    named = set(re.findall(r"deploy/[\w./@-]+\w", GUIDE))
    assert UNIT in named
    assert [name for name in named if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("role", sorted(set(re.findall(r"slipway@(\w+)", GUIDE))))
def test_the_unit_starts_roles_that_exist(role: str) -> None:
    script = (ROOT / "ops/role.sh").read_text()
    service = read_unit()["Service"]
    assert service["ExecStart"] == "/srv/slipway/ops/role.sh %i"
    assert re.search(rf"^  {role}\)$", script, flags=re.MULTILINE)


def test_commands_read_the_settings_as_systemd_does(tmp_path: Path) -> None:
    (tmp_path / "settings").write_text(
        "# A comment; with signs (of a shell)\n\n"
        "EMAIL_FROM=Slipway <slipway@example.com>\n"
        "DATABASE_URL=postgres://slipway@db/slipway?sslmode=verify-full&sslrootcert=/ca.pem\n"
        "SECRET_KEY=a$b`c\n"
        'OIDC_NAME="Acme \\"login\\""\n'
        "OIDC_SCOPES='openid email'"
    )
    runuser = tmp_path / "bin" / "runuser"
    runuser.parent.mkdir()
    show = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
    runuser.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{show}" "$@"\n')
    runuser.chmod(0o700)
    script = (ROOT / "deploy/systemd/slipway-manage").read_text()
    script = script.replace("/etc/slipway.env", str(tmp_path / "settings"))
    run = subprocess.run(
        ["sh", "-c", script.replace("cd /srv/slipway\n", ""), "slipway-manage", "doctor", "--json"],
        env={"PATH": f"{runuser.parent}:{os.environ['PATH']}"},
        check=True,
        capture_output=True,
        text=True,
    )

    arguments, variables = json.loads(run.stdout)
    assert arguments[-3:] == ["manage", "doctor", "--json"]
    assert variables["EMAIL_FROM"] == "Slipway <slipway@example.com>"
    assert variables["DATABASE_URL"].endswith("?sslmode=verify-full&sslrootcert=/ca.pem")
    assert variables["SECRET_KEY"] == "a$b`c"
    assert (variables["OIDC_NAME"], variables["OIDC_SCOPES"]) == ('Acme "login"', "openid email")


def test_fetched_commits_have_a_writable_folder_in_read_only_containers() -> None:
    service = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]["worker"]
    (uid,) = re.findall(r"useradd --system --uid (\d+)", (ROOT / "deploy/images/install.sh").read_text())
    folder = f"/var/lib/slipway/{settings.GIT_CACHE.relative_to(settings.HOME)}"
    assert service["read_only"]
    assert any(mount.startswith(f"{folder}:uid={uid},gid={uid},") for mount in service["tmpfs"])


def test_backups_and_restores_of_compose_run_without_the_migration_before_them() -> None:
    services = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]
    assert "migrate" in services["web"]["depends_on"]
    guide = (ROOT / "docs/how-to/back-up-and-restore.md").read_text()
    commands = re.findall(r"^\$ docker compose run .*manage (?:backup|restore).*$", guide, flags=re.MULTILINE)
    assert len(commands) == 3
    assert [command for command in commands if " --no-deps " not in command] == []


def test_the_unit_leaves_a_worker_time_to_end_its_pass() -> None:
    service = read_unit()["Service"]
    compose = (ROOT / "deploy/compose.yaml").read_text()
    assert f"stop_grace_period: {service['TimeoutStopSec']}s" in compose
    # A child of Celery ends in the middle of its pass when it gets SIGTERM itself.
    assert service["KillMode"] == "mixed"
