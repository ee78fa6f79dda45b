"""A change of the strategy is reviewed without a trace, and saved completely or not at all."""

from typing import Any

import pytest
import yaml

from catalog.manifests.stores import FILE_STORE
from catalog.models import Manifest, Service
from connectors.operations.files import save_file
from inventory.operations.strategy_changes import (
    StrategyChoice,
    change_strategy,
    preview_strategy_change,
)
from pipelines.models import Pipeline
from rbac.models import AuditEntry, Scope, User
from rbac.policy import Forbidden
from tests.fixtures.people import make_person
from tests.inventory.strategy_changes.read_pipelines import make_read_pipeline
from tests.inventory.strategy_changes.readings import GREEN, PRODUCTION, ROLE, TEST
from web.http.problems import Conflict

pytestmark = pytest.mark.django_db
CANARY = StrategyChoice(
    "CANARY", production=PRODUCTION, test=TEST, alternate_group=GREEN, role=ROLE, percent=5.5
)


@pytest.fixture
def pipeline(admin: User, project: Scope) -> Pipeline:
    return make_read_pipeline(project, admin)


def read_definition() -> dict[str, Any]:
    return dict(yaml.safe_load(Manifest.objects.get(identifier="service").content))


def count_changes() -> tuple[str, str, int]:
    content = Manifest.objects.get(identifier="service").content
    return Pipeline.objects.get().yaml, content, AuditEntry.objects.count()


def test_a_review_leaves_nothing(admin: User, pipeline: Pipeline) -> None:
    before = count_changes()
    change = preview_strategy_change(actor=admin, pipeline=pipeline, choice=CANARY)
    assert change.obstacles == ()
    assert "+              - step: {" not in change.pipeline_diff.unified
    assert "EcsNativeDeploy" in change.pipeline_diff.unified
    assert "CANARY: 5.5 % of the traffic for 5 minutes" in " ".join(change.changes)
    assert count_changes() == before


def test_service_definition_and_pipeline_are_saved_with_audit_entries(
    admin: User, pipeline: Pipeline
) -> None:
    digest = preview_strategy_change(actor=admin, pipeline=pipeline, choice=CANARY).digest
    changed = change_strategy(actor=admin, pipeline=pipeline, choice=CANARY, digest=digest)
    assert changed.version == 2
    assert changed.versions.filter(number=2).exists()
    assert read_definition()["deploymentConfiguration"]["canaryConfiguration"]["canaryPercent"] == 5.5
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"service.update", "pipeline.update", "pipeline.change_strategy"} <= actions


def test_a_pipeline_that_changed_since_the_review_changes_nothing(admin: User, pipeline: Pipeline) -> None:
    digest = preview_strategy_change(actor=admin, pipeline=pipeline, choice=CANARY).digest
    Pipeline.objects.update(yaml=pipeline.yaml.replace("duration: 1m", "duration: 2m"))
    pipeline.refresh_from_db()
    before = count_changes()
    with pytest.raises(Conflict, match="since the review"):
        change_strategy(actor=admin, pipeline=pipeline, choice=CANARY, digest=digest)
    assert count_changes() == before


def test_a_service_of_another_stage_too_is_refused_with_the_next_step(
    admin: User, project: Scope, pipeline: Pipeline
) -> None:
    text = pipeline.yaml.replace("identifier: shop\n", "identifier: second\n", 1)
    Pipeline.objects.create(scope=project, identifier="second", name="Second", yaml=text)
    change = preview_strategy_change(actor=admin, pipeline=pipeline, choice=CANARY)
    assert any("stage deploy of pipeline Second" in obstacle for obstacle in change.obstacles)
    with pytest.raises(Conflict, match="override"):
        change_strategy(actor=admin, pipeline=pipeline, choice=CANARY, digest=change.digest)


def test_a_file_that_another_service_uses_is_refused_with_the_next_step(
    admin: User, project: Scope, pipeline: Pipeline
) -> None:
    save_file(actor=admin, scope=project, path="/shop.yaml", content=Manifest.objects.get().content)
    Manifest.objects.update(store=FILE_STORE, content="", paths=["/shop.yaml"])
    assert preview_strategy_change(actor=admin, pipeline=pipeline, choice=CANARY).obstacles == ()
    second = Service.objects.create(scope=project, identifier="second", name="Second")
    Manifest.objects.create(
        service=second,
        identifier="service",
        kind=Manifest.Kind.SERVICE_DEFINITION,
        store=FILE_STORE,
        paths=["/shop.yaml"],
    )
    change = preview_strategy_change(actor=admin, pipeline=pipeline, choice=CANARY)
    assert "The file /shop.yaml is used by service Second too." in change.obstacles[0]
    with pytest.raises(Conflict, match="a file of its own"):
        change_strategy(actor=admin, pipeline=pipeline, choice=CANARY, digest=change.digest)


def test_a_definition_in_git_is_changed_there(admin: User, pipeline: Pipeline) -> None:
    Manifest.objects.update(store="Git", content="", paths=["service.yaml"])
    with pytest.raises(Conflict, match="in Git. Change the strategy there"):
        preview_strategy_change(actor=admin, pipeline=pipeline, choice=CANARY)


@pytest.mark.parametrize("role", ["viewer", "pipeline_executor"])
def test_a_person_without_the_permissions_changes_nothing(
    project: Scope, pipeline: Pipeline, role: str
) -> None:
    with pytest.raises(Forbidden):
        preview_strategy_change(actor=make_person("person", role, project), pipeline=pipeline, choice=CANARY)
