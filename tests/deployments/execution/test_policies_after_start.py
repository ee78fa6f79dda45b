"""Policy rules for runs and pipelines after the start of a run: at a retry, and for its resolved image."""

from collections.abc import Iterator

import pytest

from deployments.execution.operations import retry_execution, start_attempt
from deployments.models import Execution
from inventory.operations.redeployments import redeploy
from policies.evaluation import PolicyViolated
from policies.models import PolicyRule
from tests.catalog.artifacts.registry import Registry, start_registry
from tests.catalog.artifacts.test_image_sources import (
    ONE,
    TWO,
    WEB,
    create_registry_connector,
    set_artifact_source,
)
from tests.deployments.conftest import _full_buckets, drive
from tests.fixtures.engine_driver import Drive

PATTERN = WEB | {"tagPattern": "latest"}
__all__ = ["_full_buckets", "drive"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def hub() -> Iterator[Registry]:
    with start_registry(v1_9=ONE, latest=TWO) as registry_server:
        yield registry_server


def add_rule(drive: Drive, condition: str, *, subject: str = "Run", effect: str = "REFUSE") -> PolicyRule:
    return PolicyRule.objects.create(
        scope=drive.pipeline.scope,
        identifier="versions",
        name="Versions",
        subject=subject,
        condition=condition,
        message="Choose another version.",
        effect=effect,
    )


def start_failed(drive: Drive) -> Execution:
    execution = drive.start("1.27")
    fail(execution)
    return execution


def fail(execution: Execution) -> None:
    Execution.objects.filter(pk=execution.pk).update(status="FAILED", due_at=None)
    execution.refresh_from_db()


@pytest.mark.parametrize(
    ("subject", "condition"),
    [
        ("Run", "artifact.tag != '1.27'"),
        ("Run", "stages.all(s, s.environment.kind == 'Never')"),
        ("Run", "started_by.name != 'dana'"),
        ("Pipeline", "stages.all(s, s.approvals.size() > 0)"),
    ],
)
def test_a_rule_made_after_the_failure_refuses_a_retry_as_it_refuses_a_new_attempt(
    drive: Drive, subject: str, condition: str
) -> None:
    execution = start_failed(drive)
    add_rule(drive, condition.replace("dana", drive.deployer.get_username()), subject=subject)
    with pytest.raises(PolicyViolated):
        start_attempt(actor=drive.deployer, execution=execution, whole=True)
    with pytest.raises(PolicyViolated):
        retry_execution(actor=drive.deployer, execution=execution)
    assert not execution.interrupts.exists()


def test_a_retry_that_a_rule_warns_of_has_the_message_in_its_log(drive: Drive) -> None:
    execution = start_failed(drive)
    rule = add_rule(drive, "artifact.tag != '1.27'", effect="WARN")
    retry_execution(actor=drive.deployer, execution=execution)
    assert f"Policy rule Versions ({rule.scope.path}/versions): Choose another version." in drive.log(
        execution
    )


def test_the_retry_of_a_rollback_is_only_warned(drive: Drive) -> None:
    first = drive.run("1.27")
    drive.run("1.28")
    stage = first.stages.select_related("service").get()
    rollback = redeploy(actor=drive.deployer, service=stage.service, deployment=stage)
    fail(rollback)
    add_rule(drive, "artifact.tag != '1.27'")
    retry_execution(actor=drive.deployer, execution=rollback)
    assert rollback.interrupts.get().kind == "RETRY"
    assert any("Choose another version" in line for line in drive.log(rollback))


@pytest.mark.parametrize("condition", ["artifact.tag != 'latest'", f"artifact.digest != '{TWO}'"])
def test_a_rule_refuses_the_image_that_a_tag_pattern_chooses(
    drive: Drive, hub: Registry, condition: str
) -> None:
    create_registry_connector(hub)
    set_artifact_source(PATTERN)
    rule = add_rule(drive, condition)
    execution = drive.run()
    message = f"Policy rule Versions ({rule.scope.path}/versions): Choose another version."
    assert execution.failure is not None
    assert (execution.failure["code"], execution.failure["message"]) == ("POLICY_VIOLATED", message)
    assert not [call.operation for call in drive.calls(execution) if call.is_write]
    assert execution.artifact["tag"] == ""


@pytest.mark.parametrize(("tag", "source"), [("latest", WEB), ("", PATTERN)])
def test_a_warning_about_an_image_is_logged_once(
    drive: Drive, hub: Registry, tag: str, source: dict[str, str]
) -> None:
    create_registry_connector(hub)
    set_artifact_source(source)
    add_rule(drive, "artifact.tag != 'latest'", effect="WARN")
    execution = drive.run(tag)
    assert execution.status == "SUCCESS", execution.failure
    assert execution.artifact["digest"] == TWO
    assert len([line for line in drive.log(execution) if "Choose another version" in line]) == 1
