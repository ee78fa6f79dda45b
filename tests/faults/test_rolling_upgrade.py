"""A release replaces another during deployments: both work on one database, and a worker is killed."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from tests.faults.installation import Installation, installed
from tests.faults.killable_process import Part
from tests.faults.next_release import COLUMN, VERSION, copy_next_release
from tests.faults.test_killed_processes import start_all, until_written
from tests.faults.workload import Workload
from tests.fixtures.processes import ROOT, wait_until
from tests.postgres import NoPostgresError

pytestmark = pytest.mark.timeout(600)
FIRST_LEASE_SECONDS = 60


@pytest.fixture
def old() -> Iterator[Installation]:
    """An installation of this release alone, which no other test uses."""
    with tempfile.TemporaryDirectory(prefix="slipway-upgrade-", ignore_cleanup_errors=True) as name:
        try:
            with installed(Path(name)) as everything:
                yield everything
        except NoPostgresError as missing:
            pytest.skip(str(missing))


def migrate(installation: Installation, code: Path) -> None:
    """Apply the migrations of the next release, while this one works."""
    environment = installation.workers[0].environment
    command = [sys.executable, "manage.py", "migrate", "--no-input"]
    process = subprocess.run(command, cwd=code, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr


def upgrade(part: Part, code: Path) -> None:
    """Replace a process by one of the next release, as a rolling update does."""
    part.end(within=60)
    part.code = code
    part.start()


def list_versions(installation: Installation) -> set[str]:
    recent = "SELECT version FROM ops_serverprocess WHERE seen_at > now() - interval '40 seconds'"
    return {version for (version,) in installation.rows(recent)}


def wait_for_pass_of(installation: Installation, code: Path) -> None:
    """Wait until a worker of this code has reconciled an execution."""

    def has_passed() -> bool:
        owners = installation.rows("SELECT DISTINCT lease_owner FROM deployments_execution")
        pids = [owner.rpartition(":")[2] for (owner,) in owners if owner]
        folders = [Path(f"/proc/{pid}/cwd") for pid in pids]
        return any(folder.exists() and folder.resolve() == code.resolve() for folder in folders)

    wait_until(has_passed, f"a pass of {code}", FIRST_LEASE_SECONDS)


def test_a_deployment_survives_the_upgrade_of_what_runs_it(old: Installation) -> None:
    code = copy_next_release(old.folder / "next")
    workload = Workload(old)
    workload.create(4)
    workload.deploy_all("1.27")
    after = workload.mark()
    runs = start_all(workload)
    until_written(workload, after, 1)

    migrate(old, code)
    upgrade(old.workers[0], code)
    wait_for_pass_of(old, code)
    wait_until(lambda: list_versions(old) == {settings.SLIPWAY_VERSION, VERSION}, "both releases", 40)
    # Asked of the old web server; a worker of either release may do it.
    runs.append(workload.start("app2", "1.30", key="of the old web server"))
    wait_for_pass_of(old, ROOT)
    # The last worker of the old release dies in the middle of it.
    old.workers[1].kill()
    old.workers[1].code = code
    old.workers[1].start()
    for part in (*old.webs, old.beat):
        upgrade(part, code)
    for web in (0, 1):
        wait_until(lambda web=web: old.is_ready(web), "being ready", 90)
    runs.append(workload.start("app3", "1.31", key="of the new web server"))
    workload.until_over(runs)

    workload.check(runs, after=after)
    notes = old.rows(f"SELECT {COLUMN}, count(*) FROM deployments_execution GROUP BY 1 ORDER BY 1")
    assert notes == [("new", 1), ("old", 4 + 5 + 1)]
    wait_until(lambda: list_versions(old) == {VERSION}, "the end of the upgrade", 60)
