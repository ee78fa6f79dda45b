"""Many executions at once with one worker of one process: all end right, and the worker does not grow."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from subprocess import Popen

import pytest
from django.utils import timezone

from delegates.access.aws_access import open_aws_access
from deployments.engine.service_waits import EARLY, USUAL_WAIT
from deployments.models import Execution
from ops.demo.pipelines import SandboxFacts
from ops.demo.seed import seed_demo
from sandbox.process import SandboxProcess
from tests.fixtures.execution_copies import park_copies
from tests.fixtures.many_services import SERVICES_PER_CALL, described, make_fleet
from tests.fixtures.process_memory import family_of, resident_mib, watch
from tests.fixtures.processes import wait_until, working

pytestmark = pytest.mark.django_db(transaction=True)

SPEED = 30
# The share of those that crash, and are rolled back.
CRASH_INTERVAL = 5
MAX_GROWTH_MIB = 12
# Seconds between the dispatch that pays for a call and the call.
ON_THE_WAY = 2
# A worker of 2,000 parked executions may hold so much and use so much of a core.
PARKED, MOST_MIB, MOST_CORES = 2000, 150, 0.2


@pytest.fixture
def one_worker(
    child_environment: Mapping[str, str], live_broker: str, tmp_path: Path
) -> Iterator[Popen[bytes]]:
    """A worker of one process; AWS has raised the quota of its account, so that all can start at once."""
    with working({**child_environment, "SLIPWAY_AWS_QUOTA_SHARE": "50"}, tmp_path) as process:
        yield process


def run_executions(sandbox: SandboxProcess, worker: Popen[bytes], count: int, seconds: float) -> None:
    """Hold all rollouts until each execution waits, watch that, then let them end."""
    seed_demo(SandboxFacts.from_wire(sandbox.seed()))
    fleet = make_fleet(count)
    executions = fleet.start(["crash" if number % CRASH_INTERVAL == 0 else "1.27" for number in range(count)])
    waiting_executions = Execution.objects.exclude(observed_state="")
    wait_until(lambda: waiting_executions.count() == count, "everybody's wait", seconds)
    memory = {pid: resident_mib(pid) for pid in family_of(worker.pid)}
    watch_checks(sandbox, count)
    sandbox.control("POST", "clock", {"paused": False, "speed": SPEED})
    open_executions = Execution.objects.filter(ended_at=None)
    wait_until(lambda: not open_executions.exists(), "everybody's end", seconds)
    result_counts = Counter(Execution.objects.values_list("status", "outcome"))
    crashed_count = -(-count // CRASH_INTERVAL)
    assert result_counts == {
        ("SUCCESS", "COMPLETED"): count - crashed_count,
        ("FAILED", "ROLLED_BACK"): crashed_count,
    }
    memory_growth = {pid: resident_mib(pid) - before for pid, before in memory.items()}
    assert max(memory_growth.values()) < MAX_GROWTH_MIB, memory_growth
    assert len(executions) == count


def get_common_check() -> datetime | None:
    """The next turn of all, once one dispatch has sent them out together and nobody's is an early one.

    What earlier dispatches sent out asks for nothing from then on: this one has taken it over.
    """
    dispatches = set(Execution.objects.values_list("dispatch_token", "dispatch_backoff_until"))
    newest_wait = Execution.objects.latest("waiting_since").waiting_since
    ((_, next_check),) = dispatches if len(dispatches) == 1 else ((None, None),)
    return next_check if next_check is not None and next_check >= newest_wait + EARLY else None


def watch_checks(sandbox: SandboxProcess, count: int) -> None:
    """Watch two unchanged reconcile rounds: ten services to a call, a round each five seconds."""
    wait_until(get_common_check, "everybody's look in one round", 60)
    next_check = get_common_check()
    assert next_check is not None
    mark = sandbox.last_number()
    fences = sum(Execution.objects.values_list("fence", flat=True))

    def count_calls() -> Counter[str]:
        return Counter(name for call in described(sandbox.journal(mark)) for name in call.services)

    wait_until(lambda: sum(times >= 2 for times in count_calls().values()) == count, "two rounds", 60)
    describe_calls = described(sandbox.journal(mark))
    assert {len(call.services) for call in describe_calls} == {SERVICES_PER_CALL}, describe_calls
    # The round that was sent out already, and one at each turn since.
    assert max(count_calls().values()) <= 2 + (timezone.now() - next_check) // USUAL_WAIT
    assert set(count_calls()) == {f"fleet{n}" for n in range(count)}
    assert sum(Execution.objects.values_list("fence", flat=True)) == fences, "nothing had changed"


@pytest.fixture
def _stop_clock(sandbox: SandboxProcess) -> Iterator[None]:
    yield
    sandbox.control("POST", "clock", {"paused": True, "speed": 1})


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_stop_clock")
def test_forty_executions_end_right_with_one_worker(
    sandbox: SandboxProcess, one_worker: Popen[bytes]
) -> None:
    run_executions(sandbox, one_worker, 40, seconds=120)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("_stop_clock")
def test_two_hundred_executions_end_right_with_one_worker(
    sandbox: SandboxProcess, one_worker: Popen[bytes]
) -> None:
    run_executions(sandbox, one_worker, 200, seconds=600)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_two_thousand_parked_executions_are_followed_by_one_small_worker(
    sandbox: SandboxProcess, live_broker: str, worker: Popen[bytes]
) -> None:
    """One account and region: its quota is twenty calls a second, of which half are used at first."""
    seed_demo(SandboxFacts.from_wire(sandbox.seed()))
    (execution,) = make_fleet(1).start(["1.27"])
    waiting_executions = Execution.objects.exclude(observed_state="")
    wait_until(lambda: waiting_executions.exists(), "the first one's wait")
    execution.refresh_from_db()
    park_copies(execution, PARKED - 1, open_aws_access(execution.stages.get().connector, "us-east-1"))
    mark = sandbox.last_number()
    samples = watch(worker.pid, 60)
    assert max(sample.mib for sample in samples) <= MOST_MIB, samples
    assert max(sample.cores for sample in samples) <= MOST_CORES, samples
    calls = described(sandbox.journal(mark))
    assert len({name for call in calls for name in call.services}) == PARKED
    seconds = (calls[-1].at - calls[0].at).total_seconds()
    # A token is taken when a message is sent, and the call made when a worker has got to it.
    assert len(calls) <= 100 + 20 * (seconds + ON_THE_WAY)
