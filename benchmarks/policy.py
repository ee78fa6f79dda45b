"""Costs of lists filtered by permissions, compared with unfiltered lists."""

from collections.abc import Iterator

from benchmarks.clock import row, seconds
from pipelines.models import Pipeline
from rbac.models import ResourceGroup, Role, RoleAssignment, Scope, User
from rbac.policy import can, explain_permissions, filter_visible, get_permissions

ORGANIZATIONS, PROJECTS, PIPELINES = 20, 20, 50
PAGE = 50


def _fill() -> User:
    account = Scope.objects.account()
    scopes, parent = [], account
    for number in range(ORGANIZATIONS):
        parent = Scope.objects.create(parent=account, kind="ORGANIZATION", identifier=f"o{number}", name="O")
        scopes += [
            Scope.objects.create(parent=parent, kind="PROJECT", identifier=f"p{project}", name="P")
            for project in range(PROJECTS)
        ]
    Pipeline.objects.bulk_create(
        Pipeline(scope=scope, identifier=f"pipeline{number}", name="Pipeline", yaml="")
        for scope in scopes
        for number in range(PIPELINES)
    )
    person = User.objects.create_user("person")
    viewer = Role.objects.get(identifier="viewer", scope=None)
    for scope in (*scopes[:2], parent):
        RoleAssignment.objects.create(user=person, role=viewer, scope=scope)
    return person


def _assign_narrow_role(person: User) -> None:
    """Assign a role on a single pipeline too, which every row is compared with."""
    scope = Scope.objects.get(path="account/o5/p5")
    group = ResourceGroup.objects.create(scope=scope, identifier="some", name="Some")
    group.entries.create(resource="pipeline", identifier="pipeline7")
    viewer = Role.objects.get(identifier="viewer", scope=None)
    RoleAssignment.objects.create(user=person, role=viewer, scope=scope, resource_group=group)


def report() -> Iterator[str]:
    """Fill a database with 20,000 pipelines and measure."""
    person = _fill()
    pipelines = Pipeline.objects.order_by("-pk")
    visible = filter_visible(person, "core_pipeline_view", pipelines)
    pipeline = visible[0]
    all_rows = seconds(lambda: list(pipelines[:PAGE]))
    yield f"{Pipeline.objects.count()} pipelines, {visible.count()} visible by 3 assignments, pages of {PAGE}"
    yield row("a page of all", all_rows, all_rows)
    yield row("a page of what is visible", seconds(lambda: list(visible[:PAGE])), all_rows)
    yield row("counting what is visible", seconds(visible.count), all_rows)
    yield row("can() for one", seconds(lambda: can(person, "core_pipeline_view", pipeline)), all_rows)
    yield row("get_permissions() of one", seconds(lambda: get_permissions(person, pipeline)), all_rows)
    yield row(
        "explain_permissions() of one", seconds(lambda: explain_permissions(person, pipeline)), all_rows
    )
    _assign_narrow_role(person)
    visible = filter_visible(person, "core_pipeline_view", pipelines)
    yield f"and with a role on one thing by its name: {visible.count()} visible"
    yield row("a page of what is visible", seconds(lambda: list(visible[:PAGE])), all_rows)
    yield row("counting what is visible", seconds(visible.count), all_rows)
    yield row("can() for one", seconds(lambda: can(person, "core_pipeline_view", pipeline)), all_rows)
