"""Rolling deployments of DAEMON services: one task on each container instance, with no count of ours."""

from typing import Any

import pytest
import yaml

from connectors.models import FileNode
from deployments.execution.operations import roll_back_execution
from deployments.models import Execution, RollbackCheck
from inventory.models.instances import EcsServiceRecord
from tests.deployments.preview.comparison import (
    assert_same,
    list_planned_calls,
    list_recorded_calls,
    load_preview,
)
from tests.fixtures.engine_driver import Drive
from tests.inventory.drift.scans import list_drifts
from tests.stories.rolling.test_rolling_deployment import SERVICE_FILE, TASK_FILE

pytestmark = pytest.mark.django_db(transaction=True)


def _save(path: str, changes: dict[str, Any]) -> None:
    """Change fields of a manifest; None removes one."""
    node = FileNode.objects.get(path=path)
    document = {**yaml.safe_load(node.content), **changes}
    node.content = yaml.safe_dump({key: value for key, value in document.items() if value is not None})
    node.save()


@pytest.fixture
def daemon(drive: Drive) -> Drive:
    """The demo, whose service runs on each container instance."""
    _make_daemon()
    return drive


def _make_daemon() -> None:
    _save(TASK_FILE, {"requiresCompatibilities": ["EC2"], "networkMode": "bridge"})
    absent = dict.fromkeys(("desiredCount", "networkConfiguration", "deploymentConfiguration"))
    _save(SERVICE_FILE, {**absent, "launchType": "EC2", "schedulingStrategy": "DAEMON"})


def _add_instance(drive: Drive) -> None:
    drive.sandbox.control("POST", "container-instances", {"cluster": "demo", "count": 1})


def _roll_back(drive: Drive, execution: Execution) -> None:
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.pass_time(60, step=5)
    execution.refresh_from_db()
    drive.until_over(execution)


def test_each_instance_gets_the_new_version_and_a_rollback_the_former_one(daemon: Drive) -> None:
    first = daemon.run("1.27")
    assert first.outcome == "COMPLETED", first.failure
    assert any(line.endswith("on each container instance") for line in daemon.log(first))
    former = daemon.service()["taskDefinition"]
    document = load_preview(daemon, "1.28")
    second = daemon.run("1.28")
    assert second.outcome == "COMPLETED", second.failure
    assert_same(list_planned_calls(document), list_recorded_calls(second))
    assert not [c for c in daemon.calls(second) if "desiredCount" in (c.parsed_parameters or {})]
    # An instance that comes meanwhile is neither drift nor anything to put back.
    _add_instance(daemon)
    _roll_back(daemon, second)
    assert second.outcome == "ROLLED_BACK"
    service = daemon.service()
    assert (service["taskDefinition"], service["runningCount"], service["desiredCount"]) == (former, 3, 3)
    lines = RollbackCheck.objects.filter(step__stage__execution=second)
    assert lines.filter(subject__startswith="Running tasks", expected="3", passed=True).exists()
    assert not lines.filter(subject__startswith="Desired count").exists()


def test_without_a_matching_instance_it_fails_with_that_reason(daemon: Drive) -> None:
    large = {"type": "memberOf", "expression": "attribute:ecs.instance-type == p5.48xlarge"}
    _save(SERVICE_FILE, {"placementConstraints": [large]})
    execution = daemon.run("1.27")
    assert execution.status == "FAILED"
    assert execution.failure["message"].startswith("No container instance matches: Service myapp runs one")
    assert daemon.service()["status"] == "INACTIVE"


def test_neither_the_percentages_of_ecs_nor_another_instance_is_drift(daemon: Drive) -> None:
    assert daemon.run("1.27").outcome == "COMPLETED"
    assert list_drifts() == []
    _add_instance(daemon)
    daemon.sandbox.advance(60)
    assert list_drifts() == []
    assert EcsServiceRecord.objects.get().desired == 3


def test_a_service_of_the_other_scheduling_strategy_is_left_alone(drive: Drive) -> None:
    drive.run("1.27")
    mark = drive.mark()
    _make_daemon()
    execution = drive.run("1.28")
    assert execution.failure["code"] == "CONTROLLER_NOT_SUPPORTED"
    assert "Use schedulingStrategy REPLICA" in execution.failure["message"]
    assert drive.effects(mark) == []
