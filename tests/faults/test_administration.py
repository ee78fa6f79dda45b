"""What whoever runs an installation does: restart it in turn, back it up, send it more than it can take."""

import subprocess
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.faults.installation import POOL_SIZE, Installation
from tests.faults.test_killed_processes import LONGEST_ANSWER, start_all, until_written
from tests.faults.workload import Workload
from tests.fixtures.processes import wait_until
from tests.fixtures.time_limits import promised

pytestmark = pytest.mark.timeout(300)
LONGEST_END = 20
CONNECTIONS = """
    SELECT application_name FROM pg_stat_activity
    WHERE datname = 'slipway' AND application_name LIKE 'slipway%'
"""


def test_a_restart_of_one_after_the_other_disturbs_no_deployment(
    installation: Installation, workload: Workload
) -> None:
    after = workload.mark()
    runs = start_all(workload)
    until_written(workload, after, 1)
    for part in installation.parts:
        part.end(LONGEST_END)
        part.start()
    for web in (0, 1):
        wait_until(lambda web=web: installation.is_ready(web), "being ready", 60)
    workload.until_over(runs)
    workload.check(runs, after=after)


def test_what_a_backup_holds_comes_back_whole(installation: Installation, workload: Workload) -> None:
    after = workload.mark()
    tools, url = installation.database.programs, installation.database.url
    dump = installation.folder / "backup"
    subprocess.run([tools / "pg_dump", "--format=custom", f"--file={dump}", url], check=True)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE pipelines_pipeline SET name = 'Spoilt'")
        connection.execute("UPDATE connectors_secret SET value = ''")
    restore = [
        tools / "pg_restore",
        "--clean",
        "--if-exists",
        "--single-transaction",
        f"--dbname={url}",
        dump,
    ]
    subprocess.run(restore, check=True)
    assert installation.rows("SELECT count(*) FROM pipelines_pipeline WHERE name = 'Spoilt'") == [(0,)]
    runs = workload.deploy_all("1.30")
    workload.check(runs, after=after)


def test_more_askers_than_connections_are_told_and_nobody_hangs(installation: Installation) -> None:
    """A migration that holds a table is the worst of it: every connection of the pool waits."""
    client_count = POOL_SIZE * 4

    def list_executions(_number: int) -> int:
        answer = installation.request("GET", "/api/v1/executions")
        assert answer.status in (200, 503), answer.body
        assert answer.status == 200 or answer.headers["Retry-After"] == "5"
        return answer.status

    with psycopg.connect(installation.database.url) as holder:
        holder.execute("LOCK TABLE deployments_execution IN ACCESS EXCLUSIVE MODE")
        with promised(LONGEST_ANSWER), ThreadPoolExecutor(client_count) as pool:
            assert Counter(pool.map(list_executions, range(client_count))) == {503: client_count}
    with ThreadPoolExecutor(client_count) as pool:
        assert Counter(pool.map(list_executions, range(client_count))) == {200: client_count}


def test_no_process_keeps_more_connections_than_it_says(
    installation: Installation, workload: Workload
) -> None:
    most: Counter[str] = Counter()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            most.update(Counter(name for (name,) in installation.rows(CONNECTIONS)) - most)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with ThreadPoolExecutor(20) as pool:
            list(pool.map(lambda n: installation.request("GET", "/api/v1/orgs", web=n % 2), range(60)))
        workload.deploy_all("1.31")
    finally:
        over.set()
        watcher.join()
    workers = installation.concurrency * len(installation.workers)
    assert most.keys() >= {"slipway web", "slipway"}, "nobody watched"
    assert most["slipway web"] <= POOL_SIZE * len(installation.webs)
    # A worker asks anew for each task; PostgreSQL may take a moment to part with the connection before.
    assert most["slipway"] <= workers * 2
