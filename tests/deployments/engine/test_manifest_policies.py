"""Policy rules on manifests as they are deployed: with expressions resolved, before anything is written."""

import pytest

from catalog.models import Infrastructure, Service
from policies.models import PolicyRule
from rbac.models import Scope
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)
NO_CRASH = "kind != 'EcsTaskDefinition' || manifest.containerDefinitions.all(c, !c.image.endsWith(':1.27'))"
WRITING = ("RegisterTaskDefinition", "CreateService", "UpdateService")


def add_rule(drive: Drive, effect: str) -> PolicyRule:
    scope = Scope.objects.get(path=drive.pipeline.scope.path)
    return PolicyRule.objects.create(
        scope=scope,
        identifier="versions",
        name="Versions",
        subject="Manifest",
        condition=NO_CRASH,
        message="Choose another version.",
        effect=effect,
    )


def test_a_rule_refuses_the_image_that_a_manifest_gets_from_the_run(drive: Drive) -> None:
    rule = add_rule(drive, "REFUSE")
    execution = drive.run("1.27")
    message = f"Policy rule Versions ({rule.scope.path}/versions): Choose another version."
    assert execution.failure is not None
    assert (execution.failure["code"], execution.failure["message"]) == ("POLICY_VIOLATED", message)
    assert not execution.calls.filter(operation__in=WRITING).exists()


def test_a_warning_is_logged_once_and_the_run_goes_on(drive: Drive) -> None:
    rule = add_rule(drive, "WARN")
    execution = drive.run("1.27")
    assert execution.status == "SUCCESS", execution.failure
    message = f"Policy rule Versions ({rule.scope.path}/versions): Choose another version."
    assert drive.log(execution).count(message) == 1


@pytest.mark.parametrize("model", [Service, Infrastructure])
def test_a_rule_refuses_although_the_resource_was_deleted_since_the_start(
    drive: Drive, model: type[Service] | type[Infrastructure]
) -> None:
    PolicyRule.objects.create(
        scope=drive.pipeline.scope,
        identifier="versions",
        name="Versions",
        subject="Manifest",
        condition=f"environment.identifier == '' || service.identifier != 'myapp' || ({NO_CRASH})",
        message="Choose another version.",
        effect="REFUSE",
    )
    execution = drive.start("1.27")
    model.objects.all().delete()
    drive.until_over(execution)
    assert execution.failure is not None
    assert execution.failure["code"] == "POLICY_VIOLATED"
    assert not execution.calls.filter(operation__in=WRITING).exists()
