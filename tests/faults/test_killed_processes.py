"""Processes are killed, the broker forgets everything, the database dies: every deployment ends right."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.installation import Installation
from tests.faults.killable_process import Part
from tests.faults.workload import FAILS, Run, Workload
from tests.fixtures.processes import wait_until
from tests.fixtures.time_limits import promised

pytestmark = pytest.mark.timeout(300)
# The pool's wait for a connection and an attempt at a new one; by then everybody has to be told.
LONGEST_ANSWER = 12
ROUNDS = int(os.environ.get("SLIPWAY_FAULT_ROUNDS", "10"))


def start_all(workload: Workload) -> list[Run]:
    """One execution of each service, of which one fails, and a second one that waits for the first."""
    services, now = list(workload.pipelines), time.time()
    # A tag of its own for each call: a second run of one would reuse its revision.
    tags = dict.fromkeys(services, f"1.28.{now:.0f}") | {services[-1]: FAILS}
    runs = [workload.start(service, tag, key=f"{service} {now}") for service, tag in tags.items()]
    return [*runs, workload.start(services[0], "1.29", key=f"second {now}", web=1)]


def until_written(workload: Workload, after: int, count: int) -> None:
    """Wait until AWS has been told so many times to change something."""
    wait_until(lambda: sum(workload.count_writes(after).values()) >= count, f"{count} writes to AWS", 60)


def end_database(installation: Installation, seconds: float) -> None:
    """The server ends as in a power cut and comes back later."""
    installation.database.stop(signal.SIGQUIT)
    time.sleep(seconds)
    installation.database.start()


def kill_child(worker: Part) -> None:
    """Kill one of the processes in which a worker does its work."""
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)


def test_every_deployment_ends_right_whatever_dies(installation: Installation, workload: Workload) -> None:
    after = workload.mark()
    runs = start_all(workload)
    until_written(workload, after, 1)
    end_database(installation, 2)
    until_written(workload, after, 3)
    installation.flush_broker()
    kill_child(installation.workers[0])
    for part in installation.parts:
        part.die_and_come_back()
    workload.until_over(runs)
    workload.check(runs, after=after)
    assert all(part.is_alive for part in installation.parts)


def test_without_a_database_everybody_is_told_soon_and_served_again_soon(installation: Installation) -> None:
    installation.database.stop(signal.SIGQUIT)
    try:
        for path in ("/api/v1/executions", "/api/v1/orgs"):
            with promised(LONGEST_ANSWER):
                answer = installation.request("GET", path)
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5"), answer.body
            assert answer.json()["code"] == "not_available"
        page = installation.request("GET", "/deployments/", Cookie="__Host-slipway=somebody")
        assert (page.status, page.headers["Retry-After"]) == (503, "5")
        assert b"Temporarily unavailable" in page.body
        assert installation.request("GET", "/healthz").status == 200
    finally:
        installation.database.start()
    wait_until(lambda: installation.request("GET", "/api/v1/orgs").status == 200, "being served again", 6)


def test_without_a_broker_pages_and_api_are_served_and_the_rest_follows(
    installation: Installation, workload: Workload
) -> None:
    cookie = installation.sign_in().cookie
    installation.broker.kill()
    try:
        assert installation.request("GET", "/deployments/", Cookie=cookie).status == 200
        assert installation.request("GET", "/api/v1/orgs").status == 200
        assert installation.request("GET", "/readyz").json()["missing"] == ["broker"]
        assert "__Host-slipway=" in installation.sign_in().cookie
        run = workload.start(next(iter(workload.pipelines)), "1.32")
    finally:
        installation.broker.start()
    workload.until_over([run])
    assert workload.log(run)[-1].strip() == "Deployment Successful."


def test_a_request_that_came_without_tls_is_sent_to_where_it_is(installation: Installation) -> None:
    answer = installation.request("GET", "/deployments/", X_Forwarded_Proto="http")
    assert (answer.status, answer.headers["Location"].split(":")[0]) == (301, "https")


def lose_database(installation: Installation) -> None:
    end_database(installation, random.uniform(0, 8))


def lose_broker(installation: Installation) -> None:
    installation.flush_broker()


def kill_random_process(installation: Installation) -> None:
    random.choice(installation.parts).die_and_come_back()


def kill_random_child(installation: Installation) -> None:
    kill_child(random.choice(installation.workers))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lose", [lose_database, lose_broker, kill_random_process, kill_random_child])
def test_a_loss_at_any_moment_harms_no_deployment(
    installation: Installation, workload: Workload, lose: Callable[[Installation], None]
) -> None:
    for _ in range(ROUNDS):
        after = workload.mark()
        runs = start_all(workload)
        time.sleep(random.uniform(0, 15))
        lose(installation)
        workload.until_over(runs)
        workload.check(runs, after=after)
