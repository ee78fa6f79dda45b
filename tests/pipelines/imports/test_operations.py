"""An import is previewed without a trace, and created completely or not at all."""

from typing import Any

import pytest

from catalog.models import Environment, Infrastructure, Service
from connectors.models import Connector
from pipelines.imports.operations import create_import, preview_import
from pipelines.models import Pipeline
from rbac.models import AuditEntry, Scope, User
from rbac.policy import Forbidden
from tests.fixtures.people import make_person
from tests.pipelines.imports.sample_projects import ecspresso_files, import_spec
from web.http.problems import BadInput, Conflict

pytestmark = pytest.mark.django_db


@pytest.fixture
def connector(project: Scope) -> Connector:
    return Connector.objects.create(
        scope=project,
        identifier="sandbox_aws",
        name="AWS",
        kind=Connector.Kind.AWS,
        spec={"type": "InheritFromDelegate", "delegateSelectors": ["x"]},
    )


def count_rows() -> dict[str, int]:
    models = (Environment, Infrastructure, Service, Pipeline, AuditEntry)
    return {model.__name__: model.objects.count() for model in models}


def create(actor: User, scope: Scope, **more: Any) -> Any:
    spec = import_spec(ecspresso_files(), **more)
    digest = preview_import(actor=actor, scope=scope, spec=spec).digest
    return create_import(actor=actor, scope=scope, spec=spec, digest=digest)


def test_a_preview_leaves_nothing(admin: User, project: Scope, connector: Connector) -> None:
    before = count_rows()
    assert (
        preview_import(actor=admin, scope=project, spec=import_spec(ecspresso_files())).identifier == "shop"
    )
    assert count_rows() == before


def test_an_import_creates_all_of_it_with_audit_entries(
    admin: User, project: Scope, connector: Connector
) -> None:
    created = create(admin, project)
    assert created.service.identifier == "shop"
    assert created.infrastructure.cluster == "demo"
    assert created.infrastructure.connector == connector
    assert created.pipeline.identifier == "deploy_shop"
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {
        "environment.create", "infrastructure.create", "service.create", "pipeline.create", "service.import"
    } <= actions  # fmt: skip
    entry = AuditEntry.objects.get(action="service.import")
    assert entry.after["tool"] == "ecspresso"
    assert "ecs-task-def.json" in entry.after["files"]


def test_a_second_project_uses_the_environment_and_the_infrastructure(
    admin: User, project: Scope, connector: Connector
) -> None:
    first = create(admin, project)
    second = create(admin, project, service="shop_2", connector="")
    assert second.infrastructure == first.infrastructure


def test_an_infrastructure_of_another_cluster_is_refused(
    admin: User, project: Scope, connector: Connector
) -> None:
    create(admin, project)
    with pytest.raises(BadInput) as refused:
        create(admin, project, service="shop_2", cluster="other", infrastructure="demo")
    assert refused.value.errors[0]["path"] == "infrastructure"


def test_a_name_that_is_taken_creates_nothing(admin: User, project: Scope, connector: Connector) -> None:
    create(admin, project)
    before = count_rows()
    with pytest.raises(Conflict):
        create(admin, project, environment="second")
    assert count_rows() == before


def test_an_import_that_differs_from_its_preview_creates_nothing(
    admin: User, project: Scope, connector: Connector
) -> None:
    spec = import_spec(ecspresso_files())
    digest = preview_import(actor=admin, scope=project, spec=spec).digest
    changed = import_spec(ecspresso_files(), values={"COLOR": "red"})
    before = count_rows()
    with pytest.raises(Conflict, match="preview"):
        create_import(actor=admin, scope=project, spec=changed, digest=digest)
    assert count_rows() == before


def test_pipelines_that_an_import_takes_over_are_named(
    admin: User, account: Scope, project: Scope, connector: Connector
) -> None:
    first = create(admin, project)
    assert first.takeovers == ()
    for model in (Service, Environment):
        model._default_manager.update(scope=account)
    Pipeline.objects.update(identifier="older")
    spec = import_spec(ecspresso_files())
    proposal = preview_import(actor=admin, scope=project, spec=spec)
    assert proposal.takeovers == (
        f"Used from now on in place of shop of a scope above: pipeline {first.pipeline.name}.",
        f"Used from now on in place of imported of a scope above: pipeline {first.pipeline.name}.",
    )
    created = create_import(actor=admin, scope=project, spec=spec, digest=proposal.digest)
    assert created.takeovers == proposal.takeovers
    # The environment is not new to another import.
    assert create(admin, project, service="shop_2", connector="").takeovers == ()


@pytest.mark.parametrize("reference", ["", "absent", "sandbox_aws_2"])
def test_a_connector_that_is_absent_is_refused(
    admin: User, project: Scope, connector: Connector, reference: str
) -> None:
    with pytest.raises(BadInput) as refused:
        create(admin, project, connector=reference)
    assert refused.value.errors[0]["path"] == "connector"


@pytest.mark.parametrize("role", ["viewer", "pipeline_executor"])
def test_a_person_without_the_permissions_imports_nothing(
    project: Scope, connector: Connector, role: str
) -> None:
    person = make_person("person", role, project)
    with pytest.raises(Forbidden):
        create(person, project)


@pytest.mark.parametrize(
    "fields",
    [
        {"tool": "terraform"},
        {"environment": ""},
        {"environment": "../x"},
        {"service": "a b"},
        {"values": {"A-B": "x"}},
        {"values": {"A": "x" * 5000}},
        {"values": {f"V{number}": "x" for number in range(101)}},
    ],
)
def test_invalid_fields_are_refused(
    admin: User, project: Scope, connector: Connector, fields: dict[str, Any]
) -> None:
    with pytest.raises(BadInput):
        create(admin, project, **fields)
