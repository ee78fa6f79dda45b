"""What would be done is worked out by delegates too, call by call, and the run goes on from there."""

from collections.abc import Iterator

import pytest
import yaml

from catalog.models import Infrastructure
from connectors.models import Connector
from delegates.task_owners import register_task_owner
from deployments.journal.aws_access import CALL_OWNER, open_engine_access
from deployments.journal.call_owner import CallOwner
from deployments.journal.runtime import EngineRuntime
from deployments.models import Approval, AwsCall
from tests.deployments.approvals.conftest import Panel
from tests.deployments.journal.test_delegate_calls import TAGS, remote
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand

__all__ = ["remote"]

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_delegate_reads_for_an_approval(remote: object, panel: Panel) -> None:
    hand_agent = hand("reader", tags=tuple(TAGS))
    execution = panel.drive.start("1.27")
    for _ in range(60):
        panel.drive.reconcile()
        if not hand_agent.serve():
            panel.drive.pass_time(1)
        if Approval.objects.exclude(plan_hash="").exists():
            break
    approval = panel.get_approval(execution)
    body = panel.create_api_client(panel.alice).get(f"/api/v1/approvals/{approval.pk}").json()
    planned_step = body["ahead"]["stages"][0]["steps"][0]["would"]
    assert [call["operation"] for call in planned_step["calls"]][0] == "RegisterTaskDefinition"
    assert not planned_step["failure"]
    assert hand_agent.taken_operations
    assert not AwsCall.objects.filter(execution=execution, is_write=True).exists()
    assert panel.decide(panel.alice, approval).status_code == 202
    for _ in range(300):
        panel.drive.reconcile()
        if not hand_agent.serve():
            panel.drive.pass_time(1)
        execution.refresh_from_db()
        if execution.is_over:
            break
    assert execution.status == "SUCCESS", panel.drive.log(execution)[-5:]


FAR = ["far"]


@pytest.fixture
def near(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The connector of the demo goes out from here; others may go through delegates."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-the-delegate")
    runtime = EngineRuntime(open_engine_access, drive.clock.now, drive.clock.monotonic)
    monkeypatch.setattr(Drive, "runtime", runtime)
    register_task_owner(CALL_OWNER, CallOwner(runtime))
    yield
    register_task_owner(CALL_OWNER, CallOwner())


@pytest.mark.parametrize("first", ["remote", "near"])
def test_of_a_later_stage_behind_another_delegate_that_one_is_asked(
    request: pytest.FixtureRequest, panel: Panel, first: str
) -> None:
    request.getfixturevalue(first)
    aws = Connector.objects.get(identifier="sandbox_aws")
    infrastructure = Infrastructure.objects.get(identifier="sandbox", environment__identifier="dev")
    connection_spec = {"credentials": "Delegate", "connect_through": "Delegate", "delegate_selectors": FAR}
    far_connector = Connector.objects.create(
        scope=aws.scope,
        identifier="far",
        name="Far",
        kind=aws.kind,
        spec={"endpoint_url": aws.spec["endpoint_url"], **connection_spec},
    )
    infrastructure.pk, infrastructure.identifier, infrastructure.name, infrastructure.connector = (
        None,
        "far",
        "Far",
        far_connector,
    )
    infrastructure.save(force_insert=True)
    pipeline = panel.drive.pipeline
    document = yaml.safe_load(pipeline.yaml)
    later_stage = yaml.safe_load(yaml.safe_dump(document["pipeline"]["stages"][0]))["stage"]
    later_stage |= {"identifier": "later", "name": "Later"}
    later_stage["spec"]["environment"]["infrastructureDefinitions"] = [{"identifier": "far"}]
    later_stage["spec"]["execution"]["steps"].pop(0)
    document["pipeline"]["stages"].append({"stage": later_stage})
    pipeline.yaml = yaml.safe_dump(document, sort_keys=False)
    pipeline.save(update_fields=["yaml"])
    near_agent, far_agent = (
        hand("reader", tags=tuple(TAGS)),
        hand("far", tags=tuple(FAR), hostname="ip-10-0-9-9"),
    )
    execution = panel.drive.start("1.27")
    for _ in range(90):
        panel.drive.reconcile()
        if not (near_agent.serve() + far_agent.serve()):
            panel.drive.pass_time(1)
        if Approval.objects.exclude(plan_hash="").exists():
            break
    body = (
        panel.create_api_client(panel.alice)
        .get(f"/api/v1/approvals/{panel.get_approval(execution).pk}")
        .json()
    )
    stage = body["ahead"]["stages"][1]
    assert (stage["identifier"], stage["tried"]) == ("later", True)
    planned_step = stage["steps"][0]["would"]
    assert not planned_step["failure"], planned_step
    assert planned_step["calls"][0]["operation"] == "RegisterTaskDefinition"
    assert "DescribeServices" in far_agent.taken_operations
    assert bool(near_agent.taken_operations) is (first == "remote")
    assert not AwsCall.objects.filter(execution=execution, is_write=True).exists()
