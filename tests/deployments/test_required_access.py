"""The downstream rule (R082): no moment lets somebody use what a pipeline uses and they have no access to."""

from collections.abc import Callable

import pytest
from django.db import transaction
from django.test import Client
from rest_framework.test import APIClient

from catalog import operations as catalog_operations
from connectors.models import Connector, FileNode, Secret
from connectors.operations import create_connector, update_connector
from connectors.required_access import MissingAccess, find_missing_permissions, get_connector_requirements
from delegates.access.aws_access import ConnectorUnavailable, list_clusters
from delegates.access.connector_tests import run_connector_test
from delegates.access.lookup_requests import create_lookup_request, list_options
from delegates.models import LookupRequest
from delegates.operations.specs import check_spec
from deployments.execution import leftovers, operations
from deployments.models import Execution, Interrupt
from deployments.preview import operations as preview_operations
from pipelines.operations import pipelines
from rbac.models import Role, RoleAssignment, Scope, User
from rbac.permissions import PERMISSIONS, get_view_permission
from rbac.policy import NotVisible
from tests.api.sample_project import PIPELINE, TASK_DEFINITION, World, make_world
from tests.fixtures.people import make_person
from web.http.problems import BadInput, Problem

pytestmark = pytest.mark.django_db

SECRET, CONNECTOR = "core_secret_access", "core_connector_access"
SERVICE, ENVIRONMENT, FILE = "core_service_access", "core_environment_access", "core_file_access"
ROLLBACK = "core_environment_rollback"
CHECKED_PERMISSIONS = (SECRET, CONNECTOR, SERVICE, ENVIRONMENT, FILE, ROLLBACK)
RUN = {SECRET, CONNECTOR, SERVICE, ENVIRONMENT, FILE}
CONTINUE = RUN - {FILE}
# A connector through a delegate asks nobody at once, so only some moments use it.
REQUIRED_PERMISSIONS: dict[str, set[str]] = {
    "create a connector": {SECRET},
    "change a connector": {SECRET},
    "rename a connector": set(),
    "test a connector": {CONNECTOR, SECRET},
    "ask by delegate": {CONNECTOR, SECRET},
    "list clusters": {CONNECTOR, SECRET},
    "list balancers": {CONNECTOR, SECRET},
    "check a delegate's network": {CONNECTOR, SECRET},
    "create an infrastructure": {CONNECTOR, SECRET},
    "move an infrastructure": {CONNECTOR, SECRET},
    "rename an infrastructure": set(),
    "save a service": {FILE},
    "save an override": {FILE},
    "save a pipeline": RUN,
    "restore a pipeline": RUN,
    "preview": RUN,
    "run": RUN,
    "retry": CONTINUE,
    "start an attempt": RUN,
    "roll back": CONTINUE | {ROLLBACK},
    "abort": set(),
    "abort and roll back": CONTINUE | {ROLLBACK},
    "decide to retry": CONTINUE,
    "decide to roll back": CONTINUE | {ROLLBACK},
    "decide to abort": set(),
    "look for leftovers": CONTINUE,
    "clean up": RUN,
}
MANIFEST = catalog_operations.ManifestSpec("task", "EcsTaskDefinition", paths=("/task.yaml",))
KEY = {"credentials": "AccessKey", "access_key_id": "AKIAIOSFODNN7EXAMPLE"}
NETWORK = {"networkConfiguration": {"awsvpcConfiguration": {"subnets": ["subnet-0123456789abcdef0"]}}}


@pytest.fixture
def sample(project: Scope, admin: User) -> World:
    world = make_world(project, admin, admin)
    world.execution.stages.update(ecs_service="myapp")
    return world


@pytest.fixture
def person(project: Scope) -> User:
    """Somebody with a role of their own."""
    limited_user = make_person("somebody")
    role = Role.objects.create(scope=project, identifier="some", name="Some")
    RoleAssignment.objects.create(scope=project, role=role, user=limited_user)
    return limited_user


def set_permissions_except(person: User, *removed: str) -> None:
    """Give a person all permissions in the project except these."""
    person.assignments.get().role.set_permissions(set(PERMISSIONS) - set(removed))


def build_infrastructure_spec(sample: World, **changes: str) -> catalog_operations.InfrastructureSpec:
    values = {"name": "Place", "region": "us-east-1", "cluster": "demo"} | changes
    return catalog_operations.InfrastructureSpec(connector=sample.connector, **values)


def build_actions(sample: World, actor: User) -> dict[str, Callable[[], object]]:
    connector, execution, secret = sample.connector, sample.execution, sample.secret
    step = execution.stages.get().steps.first().identifier  # type: ignore[union-attr]
    kind = Interrupt.Kind

    def retry_failed() -> None:
        execution.status = "FAILED"
        operations.retry_execution(actor=actor, execution=execution)

    def start_attempt() -> None:
        Execution.objects.filter(pk=execution.pk).update(status="FAILED", due_at=None)
        operations.start_attempt(actor=actor, execution=execution, whole=True)

    def decide(decision: str) -> Callable[[], object]:
        return lambda: operations.decide_step(actor=actor, execution=execution, step=step, decision=decision)

    def roll_back_finished() -> object:
        execution.status, execution.final_status = "SUCCESS", ""
        return operations.roll_back_execution(actor=actor, execution=execution)

    def abort(roll_back: bool) -> Callable[[], object]:
        return lambda: operations.abort_execution(actor=actor, execution=execution, roll_back=roll_back)

    return {
        "create a connector": lambda: create_connector(
            actor=actor, scope=sample.scope, identifier="new", name="New", spec=KEY, secret=secret
        ),
        "change a connector": lambda: update_connector(
            actor=actor, connector=connector, spec={**KEY, "test_region": "eu-west-1"}
        ),
        "rename a connector": lambda: update_connector(actor=actor, connector=connector, name="Other"),
        "test a connector": lambda: run_connector_test(actor=actor, connector=connector),
        "ask by delegate": lambda: create_lookup_request(
            actor=actor, connector=connector, kind=LookupRequest.Kind.TEST
        ),
        "list clusters": lambda: list_clusters(actor=actor, connector=connector, region="us-east-1"),
        "list balancers": lambda: list_options(
            actor=actor, connector=connector, kind=LookupRequest.Kind.BALANCERS, region="us-east-1"
        ),
        "check a delegate's network": lambda: check_spec(
            actor=actor, task_definition={}, service=NETWORK, connector=connector, region="us-east-1"
        ),
        "create an infrastructure": lambda: catalog_operations.create_infrastructure(
            actor=actor,
            environment=sample.environment,
            identifier="new",
            spec=build_infrastructure_spec(sample),
        ),
        "move an infrastructure": lambda: catalog_operations.update_infrastructure(
            actor=actor,
            infrastructure=sample.infrastructure,
            spec=build_infrastructure_spec(sample, cluster="other"),
        ),
        "rename an infrastructure": lambda: catalog_operations.update_infrastructure(
            actor=actor,
            infrastructure=sample.infrastructure,
            spec=build_infrastructure_spec(sample, name="Other"),
        ),
        "save a service": lambda: catalog_operations.update_service(
            actor=actor,
            service=sample.service,
            spec=catalog_operations.ServiceSpec("S", manifests=[MANIFEST]),
        ),
        "save an override": lambda: catalog_operations.override_service(
            actor=actor,
            environment=sample.environment,
            service=sample.service,
            spec=catalog_operations.OverrideSpec({}, [MANIFEST]),
        ),
        "save a pipeline": lambda: pipelines.save_pipeline(
            actor=actor, scope=sample.scope, yaml=PIPELINE, pipeline=sample.pipeline
        ),
        "restore a pipeline": lambda: pipelines.restore_version(
            actor=actor, pipeline=sample.pipeline, number=1
        ),
        "preview": lambda: preview_operations.preview_pipeline(actor=actor, pipeline=sample.pipeline),
        "run": lambda: operations.run_pipeline(actor=actor, pipeline=sample.pipeline),
        "retry": retry_failed,
        "start an attempt": start_attempt,
        "roll back": roll_back_finished,
        "abort": abort(False),
        "abort and roll back": abort(True),
        "decide to retry": decide(kind.RETRY),
        "decide to roll back": decide(kind.ROLL_BACK),
        "decide to abort": decide(kind.ABORT),
        "look for leftovers": lambda: leftovers.list_leftovers(actor=actor, execution=execution),
        "clean up": lambda: leftovers.delete_leftovers(
            actor=actor, execution=execution, services=["myappCanary"]
        ),
    }


def list_refused_permissions(action: Callable[[], object]) -> set[str]:
    """Run an action, undo it, and return the permissions that its refusal names."""
    try:
        with transaction.atomic():
            try:
                action()
            finally:
                transaction.set_rollback(True)
    except MissingAccess as error:
        return {permission for permission in CHECKED_PERMISSIONS if permission in str(error.errors)}
    except (Problem, ConnectorUnavailable):
        return set()
    return set()


def test_each_moment_asks_for_access_to_all_that_it_uses(
    sample: World, person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether AWS answers is not the question here.
    patched_names = (
        "delegates.access.aws_access.fetch_clusters",
        "delegates.access.lookup_requests.fetch_options",
        "delegates.operations.specs.lint_spec",
    )
    for name in patched_names:
        monkeypatch.setattr(name, lambda *_args, **_more: [])
    for name in ("delegates.access.connector_tests.run_aws_test", "deployments.preview.operations._preview"):
        monkeypatch.setattr(name, _never)
    for name in (
        "delegates.operations.specs._describe_network",
        "deployments.execution.leftovers.read_candidates",
    ):
        monkeypatch.setattr(name, _never)
    set_permissions_except(person, *CHECKED_PERMISSIONS)
    refusals = {}
    for name in REQUIRED_PERMISSIONS:
        for row in (sample.execution, sample.infrastructure, sample.connector):
            row.refresh_from_db()
        refusals[name] = list_refused_permissions(build_actions(sample, person)[name])
    assert refusals == REQUIRED_PERMISSIONS


def _never(*_args: object, **_more: object) -> object:
    raise Problem("Nobody is asked.")


def test_a_refusal_names_the_thing_the_permission_and_who_gives_it(
    sample: World, person: User, call: Callable[[User], APIClient]
) -> None:
    set_permissions_except(person, SECRET, CONNECTOR)
    response = call(person).post(f"/api/v1/pipelines/{sample.pipeline.pk}/executions", {}, format="json")
    assert response.status_code == 403
    body = response.json()
    assert body["code"] == "forbidden"
    path = "pipeline.stages.0.stage.spec.environment.infrastructureDefinitions.0.identifier"
    assert body["errors"] == [
        {
            "path": path,
            "message": f"You need {CONNECTOR} on the connector aws in account/default/demo. "
            "The role Pipeline Executor in that scope grants it; ask admin.",
        },
        {
            "path": path,
            "message": f"You need {SECRET} on the secret key of the connector aws in account/default/demo. "
            "The role Pipeline Executor in that scope grants it; ask admin.",
        },
    ]


def test_who_may_not_see_a_thing_reads_neither_its_name_nor_its_place(sample: World, person: User) -> None:
    set_permissions_except(
        person, SECRET, "core_secret_view", CONNECTOR, "core_connector_view", "core_user_view"
    )
    Secret.objects.update(identifier="hidden_key")
    Connector.objects.update(identifier="hidden_connector")
    with pytest.raises(MissingAccess) as refusal:
        operations.run_pipeline(actor=person, pipeline=sample.pipeline)
    error_text = refusal.value.detail + str(refusal.value.errors)
    assert "the connector of infrastructure sandbox" in error_text
    assert "the secret of the connector" in error_text
    for name in ("hidden_key", "hidden_connector", "account/default/demo", "admin"):
        assert name not in error_text


def test_saving_does_not_tell_whether_an_unseen_name_exists(sample: World, person: User) -> None:
    def list_messages(yaml: str) -> list[str]:
        with pytest.raises(BadInput) as refusal:
            pipelines.save_pipeline(actor=person, scope=sample.scope, yaml=yaml, pipeline=sample.pipeline)
        return [error["message"].replace("nowhere", "myapp") for error in refusal.value.errors]

    set_permissions_except(person, SERVICE, "core_service_view")
    assert list_messages(PIPELINE) == ["service myapp does not exist in account/default/demo"]
    assert list_messages(PIPELINE.replace("serviceRef: myapp", "serviceRef: nowhere")) == list_messages(
        PIPELINE
    )


def test_an_unseen_secret_cannot_be_given_to_a_connector(sample: World, person: User) -> None:
    set_permissions_except(person, SECRET, "core_secret_view")
    with pytest.raises(NotVisible):
        update_connector(
            actor=person,
            connector=sample.connector,
            spec={**KEY, "access_key_id": "AKIAOTHER"},
            secret=sample.secret,
        )


def test_things_of_scopes_above_need_access_up_there(
    sample: World, person: User, account: Scope, admin: User
) -> None:
    set_permissions_except(person)
    Secret.objects.filter(pk=sample.secret.pk).update(scope=account)
    Connector.objects.filter(pk=sample.connector.pk).update(scope=account)
    FileNode.objects.create(scope=account, path="/task.yaml", content=TASK_DEFINITION)
    sample.service.manifests.filter(identifier="task").update(paths=["account:/task.yaml"])
    with pytest.raises(MissingAccess) as refusal:
        operations.run_pipeline(actor=person, pipeline=sample.pipeline)
    assert {permission for permission in CHECKED_PERMISSIONS if permission in str(refusal.value.errors)} == {
        CONNECTOR,
        SECRET,
        FILE,
    }
    executor = Role.objects.get(identifier="pipeline_executor", scope=None)
    RoleAssignment.objects.create(scope=account, role=executor, user=person)
    assert operations.run_pipeline(actor=person, pipeline=sample.pipeline).started_by == person


def test_access_that_was_taken_away_counts_at_the_next_run(sample: World, person: User) -> None:
    set_permissions_except(person)
    operations.run_pipeline(actor=person, pipeline=sample.pipeline)
    set_permissions_except(person, CONNECTOR)
    with pytest.raises(MissingAccess):
        operations.run_pipeline(actor=person, pipeline=sample.pipeline)


def test_the_editor_says_it_while_somebody_writes(sample: World, person: User) -> None:
    set_permissions_except(person, SECRET)
    (error,) = pipelines.check_pipeline(PIPELINE, sample.scope, person)["errors"]
    assert SECRET in error["message"]
    assert PIPELINE.splitlines()[error["line"] - 1].strip() == "- identifier: sandbox"


def test_the_page_that_runs_says_what_is_missing(
    sample: World, person: User, browse: Callable[[User], Client]
) -> None:
    set_permissions_except(person, SECRET)
    page = browse(person).post(f"/pipelines/{sample.pipeline.pk}/run/", {"tag": "v1"})
    assert "You need core_secret_access on the secret key of the connector aws" in page.content.decode()


def test_a_page_that_may_not_go_on_says_what_is_missing(
    sample: World, person: User, browse: Callable[[User], Client]
) -> None:
    set_permissions_except(person, SECRET)
    page = browse(person).post(f"/connectors/{sample.connector.pk}/test/")
    assert page.status_code == 403
    assert "You need core_secret_access on the secret key of the connector aws" in page.content.decode()


def test_the_needs_of_many_stages_cost_as_many_queries_as_those_of_one(
    sample: World, person: User, django_assert_max_num_queries: Callable[..., object]
) -> None:
    set_permissions_except(person)
    requirements = [*get_connector_requirements(sample.connector)] * 20
    with django_assert_max_num_queries(4):  # type: ignore[attr-defined]
        assert find_missing_permissions(person, requirements) == []


def test_view_permissions_exist_for_all_that_is_asked() -> None:
    assert all(get_view_permission(resource) in PERMISSIONS for resource in CHECKED_PERMISSIONS)
