"""What is approved is what runs, also if files or tags change after the plan was made."""

from collections.abc import Iterator

import pytest

from catalog.manifests.fetching import depends_on_steps
from policies.models import PolicyRule
from tests.catalog.artifacts.registry import Registry, start_registry
from tests.catalog.artifacts.test_image_sources import (
    ONE,
    TWO,
    WEB,
    create_registry_connector,
    set_artifact_source,
)
from tests.catalog.manifests.stores.test_rollback_to_earlier import double_memory, edit_file, get_memory
from tests.deployments.approvals.conftest import Panel

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with start_registry(v1_9=ONE, latest=TWO) as server:
        yield server


def test_a_file_that_is_edited_after_its_plan_was_made_waits_for_the_next_run(panel: Panel) -> None:
    panel.deploy_without_approval("1.27")
    panel.insert_approval()
    execution = panel.start("1.28")
    edit_file(double_memory)
    assert panel.decide(panel.alice, panel.get_approval(execution)).status_code == 202
    panel.drive.until_over(execution)
    assert (execution.status, get_memory(panel.drive, execution)) == ("SUCCESS", "512")


def test_a_tag_that_moves_after_its_plan_was_made_is_deployed_as_it_was(
    panel: Panel, registry: Registry
) -> None:
    create_registry_connector(registry)
    set_artifact_source(WEB)
    execution = panel.start("v1.9")
    approval = panel.get_approval(execution)
    body = panel.create_api_client(panel.alice).get(f"/api/v1/approvals/{approval.pk}").json()
    assert body["ahead"]["artifact"]["digest"] == ONE
    [step] = body["ahead"]["stages"][0]["steps"]
    assert (step["would"]["failure"], step["would"]["calls"] != []) == (None, True)
    assert f"The image library/nginx:v1.9 has the digest {ONE}" in panel.drive.log(execution)
    registry.tags["v1.9"] = TWO
    planned_hash = approval.plan_hash
    panel.create_api_client(panel.bob).post(f"/api/v1/approvals/{approval.pk}/check")
    panel.drive.pass_time(2)
    approval.refresh_from_db()
    assert (approval.plan_hash, approval.is_being_refreshed) == (planned_hash, False)
    assert panel.decide(panel.alice, approval).status_code == 202
    panel.drive.until_over(execution)
    assert (execution.status, execution.artifact["digest"]) == ("SUCCESS", ONE)


def test_nobody_is_asked_about_an_image_that_a_rule_refuses(panel: Panel, registry: Registry) -> None:
    PolicyRule.objects.create(
        scope=panel.drive.pipeline.scope,
        identifier="versions",
        name="Versions",
        subject="Run",
        condition="artifact.tag != 'latest'",
        message="Choose another version.",
        effect="REFUSE",
    )
    create_registry_connector(registry)
    set_artifact_source(WEB | {"tagPattern": "latest"})
    execution = panel.drive.run("")
    assert (execution.status, execution.failure["code"]) == ("FAILED", "POLICY_VIOLATED")
    assert execution.failure["step"] == "ask"
    assert panel.get_approval(execution).status == "WITHDRAWN"


@pytest.mark.parametrize(
    ("path", "is_known_later"),
    [
        ("ecs/<+env.identifier>/<+artifact.tag>.yaml", False),
        ("ecs/<+execution.steps.build.output.name>.yaml", True),
        ("ecs/<+provisioner.folder>/task.yaml", True),
    ],
)
def test_a_file_whose_place_a_step_names_is_read_by_the_run(path: str, is_known_later: bool) -> None:
    assert depends_on_steps({"place": {"branch": "main"}, "paths": [path]}) == is_known_later
    assert depends_on_steps({"place": {"branch": path}, "paths": ["task.yaml"]}) == is_known_later
