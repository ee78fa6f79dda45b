"""A delegate one release behind: it deploys, is replaced in the middle, and lacks what is newer."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from delegates.agent import VERSION as THIS_VERSION
from delegates.models import DelegateInstance, DelegateTask
from deployments.execution.operations import roll_back_execution, run_pipeline
from deployments.models import Execution
from guards.examinations import Result
from ops.doctor import examine_installation
from pipelines.models import Pipeline
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User
from tests.deployments.engine.conftest import pipeline_text, stage_text
from tests.fixtures.agents import AGENT
from tests.fixtures.processes import wait_until
from tests.stories.delegate_deployments.conftest import StartDying
from tests.stories.delegate_deployments.demo_deployments import Work
from tests.stories.delegate_deployments.former_agent import VERSION, copy_former_agent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """The code of the release before."""
    return copy_former_agent(tmp_path / "former release")


@dataclass
class Site:
    """A server that counts its requests."""

    url: str = ""
    paths: list[str] = field(default_factory=list)


@pytest.fixture
def site() -> Iterator[Site]:
    running = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            running.paths.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        running.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield running
        server.shutdown()
        thread.join()


def save_request(url: str, timeout: str) -> Pipeline:
    """Save a pipeline with a request that delegates send."""
    step = f"""
- step:
    identifier: ask
    type: Http
    timeout: {timeout}
    delegateSelectors: [prod]
    spec:
      url: {url}
      method: GET
"""
    admin, project = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    return save_pipeline(actor=admin, scope=project, yaml=pipeline_text(stage_text(step)))


def list_servers(work: Work, execution: Execution) -> list[str]:
    """Return the names of the delegates that served calls, in order and each once."""
    names = (hand["delegate"].split(" on ")[0] for hands in work.list_served_by(execution) for hand in hands)
    return list(dict.fromkeys(names))


def test_it_deploys_and_a_new_one_takes_over_in_the_middle(
    work: Work, start: StartDying, former: Path
) -> None:
    old = start("former", program=AGENT, code=former)
    assert DelegateInstance.objects.get(delegate__name="former").version == VERSION
    warnings = [
        each.message for _, each in examine_installation(["versions"]) if each.result is Result.WARNING
    ]
    assert any("1 delegate instances have another version" in text and VERSION in text for text in warnings)
    first = work.deploy("1.27")
    work.check_once(first, after=0)
    assert list_servers(work, first) == ["former"]

    after, execution = work.mark(), work.run("1.28")
    wait_until(lambda: work.effects(after)["RegisterTaskDefinition"] == 1, "the first write", 60)
    start("new", program=AGENT)
    assert DelegateInstance.objects.get(delegate__name="new").version == THIS_VERSION
    # It finishes its tasks, and takes no more.
    old.end(within=60)
    work.check_once(work.until_over(execution), after=after)
    assert list_servers(work, execution) == ["former", "new"]

    roll_back_execution(actor=work.deployer, execution=execution)
    wait_until(lambda: not Execution.objects.get(pk=execution.pk).is_over, "the rollback's beginning")
    assert work.until_over(execution).outcome == "ROLLED_BACK"


def test_a_kind_of_task_that_it_lacks_goes_to_a_new_one(
    work: Work, start: StartDying, former: Path, site: Site
) -> None:
    start("former", program=AGENT, code=former)
    execution = run_pipeline(actor=work.deployer, pipeline=save_request(f"{site.url}/asked", "5m"))
    wait_until(lambda: "former" in list_servers(work, execution), "the refusal of the former one", 60)
    assert site.paths == []

    start("new", program=AGENT)

    assert work.until_over(execution).status == "SUCCESS", execution.failure
    assert list_servers(work, execution)[-1] == "new"
    assert site.paths == ["/asked"]


def test_without_a_new_one_the_step_waits_and_says_that_it_must_be_upgraded(
    work: Work, start: StartDying, former: Path, site: Site
) -> None:
    start("former", program=AGENT, code=former)
    execution = run_pipeline(actor=work.deployer, pipeline=save_request(f"{site.url}/asked", "20s"))
    waiting = DelegateTask.objects.filter(
        kind=DelegateTask.Kind.HTTP,
        reason__contains="this delegate cannot run tasks of kind 'http': upgrade it",
    )
    wait_until(lambda: waiting.filter(status=DelegateTask.Status.QUEUED).exists(), "the reason", 60)
    work.until_over(execution)
    assert execution.failure is not None
    assert execution.failure["message"].startswith("The step did not end within its time-out")
    assert site.paths == []


def test_an_operation_that_it_lacks_is_refused_with_the_reason(
    work: Work, start: StartDying, former: Path
) -> None:
    start("former", program=AGENT, code=former)
    execution = work.until_over(work.run("1.27", "blue_green_demo"))
    assert execution.status == "FAILED"
    assert execution.failure is not None
    assert "ecs:TagResource is not allowed on this delegate" in execution.failure["message"]
    assert max(work.effects(after=0).values()) == 1
