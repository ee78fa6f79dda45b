"""A deployment through a delegate is one trace, from the request to the calls of the delegate."""

from collections.abc import Iterator, Mapping

import pytest

from pipelines.models import Pipeline
from rbac.models import User
from rbac.operations.api_keys import create_api_key
from tests.fixtures.agents import AGENT, Manager, request_json
from tests.fixtures.processes import wait_until
from tests.fixtures.trace_collector import TraceCollector, collecting_traces
from tests.stories.delegate_deployments.conftest import StartDying
from tests.stories.delegate_deployments.demo_deployments import Work

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def collector() -> Iterator[TraceCollector]:
    with collecting_traces() as collector:
        yield collector


@pytest.fixture(scope="module")
def child_environment(child_environment: Mapping[str, str], collector: TraceCollector) -> Mapping[str, str]:
    """The environment of a manager that sends its spans to the collector."""
    return {**child_environment, **collector.environment}


def test_a_deployment_is_one_trace_over_web_worker_and_delegate(
    work: Work, manager: Manager, start: StartDying, collector: TraceCollector
) -> None:
    start("traced", program=AGENT, **collector.environment)
    admin = User.objects.get(username="admin")
    _, key = create_api_key(actor=admin, user=admin, name="traces")
    pipeline = Pipeline.objects.get(identifier="rolling_demo")
    path = f"/api/v1/pipelines/{pipeline.pk}/executions"
    document = request_json(manager.url, "POST", path, {"artifact": {"tag": "1.27"}}, X_Api_Key=key)
    execution = work.until_over(pipeline.executions.get(pk=document["id"]))
    assert execution.status == "SUCCESS", execution.failure

    def find_root() -> str:
        roots = [span for span in collector.spans if span.name.startswith("POST api/v1/pipelines/")]
        return roots[0].trace_id if roots else ""

    wait_until(find_root, "the span of the request")
    names = {"web": "slipway-web", "worker": "slipway-worker", "delegate": "slipway-delegate"}

    def list_calls() -> list[str]:
        trace = collector.list_trace(find_root())
        return [span.name for span in trace if span.service == names["delegate"] and "ECS." in span.name]

    def has_write() -> bool:
        return bool({"ECS.CreateService", "ECS.UpdateService"}.intersection(list_calls()))

    def has_one_root() -> bool:
        """Whether every other span has arrived with its parent, which a process sends after its children."""
        trace = collector.list_trace(find_root())
        ids = {span.span_id for span in trace}
        roots = [span.name for span in trace if span.parent_id not in ids]
        return roots == ["POST api/v1/pipelines/<int:pk>/executions"]

    wait_until(has_write, "the span of a call by the delegate")
    wait_until(has_one_root, "the parent of each span")
    trace = collector.list_trace(find_root())
    assert {span.service for span in trace} == set(names.values())
    for name in ("reconcile", "delegate task"):
        spans = [span for span in trace if span.name == name]
        assert {span.attributes["slipway.execution"] for span in spans} == {str(execution.pk)}
    assert execution.trace_context["traceparent"].split("-")[1] == find_root()
    assert not [span for span in collector.spans if span.name.endswith("ops.tasks.tick")]
    assert f"/pipelines/{pipeline.pk}/executions".encode() not in b"".join(collector.bodies)
    assert key.encode() not in b"".join(collector.bodies)
