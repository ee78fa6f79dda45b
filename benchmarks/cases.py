"""Requests for every URL of the site, and the slowest reader of each list."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from django.db.models import Model
from django.test import Client
from django.urls import reverse

from accounts.queries.people import PERSON_FILTERS
from accounts.queries.resource_groups import RESOURCE_GROUP_FILTERS
from accounts.queries.roles import ROLE_FILTERS
from benchmarks.history import Site
from catalog.models import Service
from connectors.pages.connectors import CONNECTOR_FILTERS
from delegates.models import DelegateTask
from delegates.pages.delegates import TABS
from delegates.pages.tasks import FILTERS as TASK_FILTERS
from deployments.execution.queries import PIPELINE_FILTERS
from deployments.models import Approval, Execution, StageExecution
from deployments.pages.executions import FILTERS
from inventory.dashboards.deployment_statistics import RANGES
from inventory.dashboards.environment_list import ENVIRONMENT_FILTERS
from inventory.dashboards.service_list import SERVICE_FILTERS
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceEvent, ServiceInstance
from inventory.pages.drift import STATE_CHOICES
from inventory.queries.events import TIME_RANGES
from pipelines.models import Pipeline
from rbac.models import AuditEntry, Scope, User
from steps.states import Status
from tests.routes import addresses
from web.http.pagination import Cursor


@dataclass(frozen=True)
class Case:
    """One page with its reader."""

    name: str
    path: str
    reader: Client = field(compare=False)


@dataclass(frozen=True)
class Readers:
    """Signed-in clients: in the account, in a busy project, in a quiet project."""

    account: Client
    project: Client
    quiet: Client


def signed_in(person: User, scope: Scope) -> Client:
    """Return a client of `person` in `scope`."""
    reader = Client(SERVER_NAME="127.0.0.1")
    reader.force_login(person)
    reader.get("/deployments/", {"scope": scope.path})
    return reader


def cases(site: Site) -> Iterator[Case]:
    """Yield every URL for an account administrator, then each list for its slowest reader."""
    readers = Readers(
        signed_in(site.admin, Scope.objects.account()),
        signed_in(site.admin, site.world.scope),
        signed_in(site.quiet, site.quiet_project),
    )
    for address in addresses(site.world):
        if address.status == 200:
            yield Case(address.name, address.path, readers.account)
    yield from _pages_of_executions(site, readers)
    yield from _pages_of_one_execution(readers)
    yield from _pages_of_the_overview(site, readers)
    yield from _pages_of_inventory(site, readers)
    yield from _pages_of_drift(site, readers)
    yield from _pages_of_delegates(site, readers)
    yield from _pages_of_approvals_and_audit(readers)
    yield from _pages_of_lists_with_state(readers)
    yield from _lists_of_the_api(site, readers)


def _pages_of_executions(site: Site, readers: Readers) -> Iterator[Case]:
    path, deep = "/deployments/", _get_deep_cursor(Execution, "created_at")
    for word, _, _ in FILTERS:
        yield Case(f"executions, {word or 'all'}", f"{path}?status={word}", readers.account)
        yield Case(
            f"executions, {word or 'all'}, deep", f"{path}?status={word}&cursor={deep}", readers.account
        )
    for subject, text in (("name", "pipeline 1"), ("number", "#77"), ("tag", "v1"), ("nothing", "nowhere")):
        yield Case(f"executions, search for a {subject}", f"{path}?q={quote(text)}", readers.account)
    organization = site.world.scope.parent or site.world.scope
    yield Case("executions of an organization", path, signed_in(site.admin, organization))
    yield Case("executions of a project", path, readers.project)
    yield Case("executions, reader of 3 projects", path, signed_in(site.member, site.world.scope))
    yield Case("executions of a quiet project", path, readers.quiet)
    yield Case("executions of a quiet project, failed", f"{path}?status=failed", readers.quiet)


def _pages_of_one_execution(readers: Readers) -> Iterator[Case]:
    """Yield the pages of the execution with the longest log."""
    longest = Execution.objects.latest("next_line_number", "pk")
    path, late = f"/api/v1/executions/{longest.pk}", longest.next_line_number * 9 // 10
    yield Case("execution with a long log", reverse("execution", args=[longest.pk]), readers.account)
    for name, query in (
        ("log", "log"),
        ("log, late", f"log?after={late}"),
        ("blocks", "log?blocks=true"),
        ("blocks, late", f"log?blocks=true&after={late}"),
        ("search for nothing", "log/search?q=nowhere"),
        ("search, late", f"log/search?q=nowhere&after={late}"),
        ("calls", "calls"),
    ):
        yield Case(f"long log: {name}", f"{path}/{query}", readers.account)


def _pages_of_the_overview(site: Site, readers: Readers) -> Iterator[Case]:
    for days in RANGES:
        yield Case(f"overview, {days} days", f"/?days={days}", readers.account)
        yield Case(f"figures of {days} days", f"/figures/?days={days}", readers.account)
        yield Case(f"api-overview, {days} days", f"/api/v1/overview?days={days}", readers.account)
    yield Case("overview of a project", "/?days=90", readers.project)
    yield Case("overview of a quiet project", "/?days=90", readers.quiet)
    yield Case("figures of a project", "/figures/?days=90", readers.project)
    yield Case("figures of a quiet project", "/figures/?days=90", readers.quiet)
    path, deep = "/events/", _get_deep_cursor(EcsServiceEvent, "at")
    for since in TIME_RANGES:
        yield Case(f"events of: {since}", f"{path}?since={since}", readers.account)
    for word, query in (
        ("a text", "q=steady"),
        ("nothing", "q=nowhere"),
        ("a service", "service=service1"),
        ("no service", "service=nowhere"),
        ("an environment", "environment=env1"),
        ("an account", "account=123456789012"),
        ("deep", f"cursor={deep}"),
    ):
        yield Case(f"events, search for {word}", f"{path}?since=all&{query}", readers.account)
        yield Case(f"api-events, search for {word}", f"/api/v1{path[:-1]}?since=all&{query}", readers.account)
    yield Case("events of a quiet project", f"{path}?since=all", readers.quiet)


def _pages_of_lists_with_state(readers: Readers) -> Iterator[Case]:
    """Yield the lists that show what is healthy, by each filter, and by the name of one row."""
    lists: dict[str, Iterable[str]] = {
        "/pipelines/": PIPELINE_FILTERS,
        "/services/": SERVICE_FILTERS,
        "/environments/": ENVIRONMENT_FILTERS,
        "/connectors/": CONNECTOR_FILTERS,
        "/access/people/": PERSON_FILTERS,
        "/access/roles/": ROLE_FILTERS,
        "/access/resource-groups/": RESOURCE_GROUP_FILTERS,
    }
    for path, filters in lists.items():
        for word in filters:
            yield Case(f"{path} {word or 'all'}", f"{path}?show={word}&density=compact", readers.account)
        yield Case(f"{path} by name", f"{path}?q=1&sort=name", readers.account)
        yield Case(f"{path} of a quiet project", path, readers.quiet)
    yield Case("search everywhere", "/search/?q=1", readers.account)


def _pages_of_inventory(site: Site, readers: Readers) -> Iterator[Case]:
    path, deep = "/instances/", _get_deep_cursor(ServiceInstance, "created_at")
    queries = (
        ("all", ""),
        ("deep", f"cursor={deep}"),
        ("search for an image", "q=registry"),
        ("search for a task", f"q={7:032x}"),
        ("search for nothing", "q=nowhere"),
        ("an environment", "environment=env1"),
        ("no environment", "environment=nowhere"),
        ("an origin", "origin=OUTSIDE"),
        ("a rare origin", "origin=AUTO_SCALED"),
    )
    largest, other = site.world.service, Service.objects.filter(identifier="service1").earliest("pk")
    for name, query in queries:
        in_api = f"cursor={_get_deep_cursor(ServiceInstance, 'pk')}" if name == "deep" else query
        for status in ("", "stopped"):
            yield Case(f"instances {status}, {name}", f"{path}?show={status}&{query}", readers.account)
            of = reverse("service-instances", args=[largest.pk])
            yield Case(f"service-instances {status}, {name}", f"{of}?show={status}&{query}", readers.account)
            of, is_stopped = reverse("api-service-instances", args=[largest.pk]), str(bool(status)).lower()
            yield Case(
                f"api-instances {status}, {name}", f"{of}?stopped={is_stopped}&{in_api}", readers.account
            )
    for name, reader in (("a project", readers.project), ("a quiet project", readers.quiet)):
        for status in ("", "stopped"):
            yield Case(f"instances {status} of {name}", f"{path}?show={status}", reader)
        yield Case(f"what runs where in {name}", "/inventory/", reader)
    yield Case(
        "what runs where, deep", f"/inventory/?cursor={_get_deep_cursor(Service, 'pk')}", readers.account
    )
    deployed = StageExecution.objects.filter(service=largest).order_by("-pk").values_list("pk", flat=True)
    compared = f"from={deployed[deployed.count() // 2]}&to={deployed[0]}"
    of_service = reverse("service-dashboard", args=[largest.pk])
    yield Case(
        "dashboard, deep", f"{of_service}?cursor={_get_deep_cursor(StageExecution, 'pk')}", readers.account
    )
    yield Case("dashboard of another", reverse("service-dashboard", args=[other.pk]), readers.account)
    compare = reverse("compare-deployments", args=[largest.pk])
    yield Case("compare two deployments", f"{compare}?{compared}", readers.account)


def _pages_of_drift(site: Site, readers: Readers) -> Iterator[Case]:
    deep = _get_deep_cursor(DriftComparison, "pk")
    for state, _ in STATE_CHOICES:
        yield Case(f"drift, {state}", f"/drift/?show={state}", readers.account)
    yield Case("drift, deep", f"/drift/?cursor={deep}", readers.account)
    yield Case("drift of a quiet project", "/drift/", readers.quiet)
    for state in DriftComparison.State.values:
        yield Case(f"api-drift, {state}", f"/api/v1/drift?state={state}", readers.account)
    yield Case("api-drift, deep", f"/api/v1/drift?cursor={deep}", readers.account)


def _pages_of_delegates(site: Site, readers: Readers) -> Iterator[Case]:
    path, deep = "/delegates/tasks/", _get_deep_cursor(DelegateTask, "queued_at")
    delegate_filter = f"delegate={site.world.delegate.pk}"
    for word, _, _ in TASK_FILTERS:
        yield Case(f"delegate-tasks, {word or 'all'}", f"{path}?status={word}", readers.account)
        yield Case(
            f"delegate-tasks of one, {word or 'all'}",
            f"{path}?status={word}&{delegate_filter}",
            readers.account,
        )
    of_one = reverse("delegate", args=[site.world.delegate.pk])
    for tab in TABS:
        yield Case(f"delegate, {tab.name}", f"{of_one}?tab={tab.name}", readers.account)
    yield Case("delegate-tasks, deep", f"{path}?cursor={deep}", readers.account)
    yield Case("delegate-tasks of a quiet project", path, readers.quiet)
    for status in DelegateTask.Status.values:
        yield Case(
            f"api-delegate-tasks, {status}", f"/api/v1/delegate-tasks?status={status}", readers.account
        )
    yield Case("api-delegate-tasks of one", f"/api/v1/delegate-tasks?{delegate_filter}", readers.account)
    yield Case("api-delegate-tasks, deep", f"/api/v1/delegate-tasks?cursor={deep}", readers.account)


def _pages_of_approvals_and_audit(readers: Readers) -> Iterator[Case]:
    yield Case("approvals, mine", "/approvals/", readers.account)
    deep = _get_deep_cursor(Approval, "requested_at")
    yield Case("approvals, deep", f"/approvals/?show=all&cursor={deep}", readers.account)
    yield Case("approvals of a quiet project", "/approvals/?show=all", readers.quiet)
    for status in ("WAITING", "REJECTED"):
        yield Case(f"api-approvals, {status}", f"/api/v1/approvals?status={status}", readers.account)
    for name, query in (
        ("a person", "who=person1"),
        ("nobody", "who=nobody"),
        ("an action", "action=pipeline"),
        ("a rare action", "action=apikey"),
        ("a thing", "thing=%2377"),
        ("nothing", "thing=nowhere"),
        ("an address", "address=192.0.2.7"),
        ("long ago", "until=2020-01-01"),
        ("a kind", "kind=pipelines.pipeline"),
        ("deep", f"cursor={_get_deep_cursor(AuditEntry, 'pk')}"),
    ):
        yield Case(f"audit-trail, {name}", f"/access/audit/?{query}", readers.account)
        yield Case(f"api-audit, {name}", f"/api/v1/audit?{query}", readers.account)
    yield Case("audit-trail of a project", "/access/audit/", readers.project)


def _lists_of_the_api(site: Site, readers: Readers) -> Iterator[Case]:
    path, deep, account = "/api/v1/executions", _get_deep_cursor(Execution, "created_at"), readers.account
    yield Case("api-executions, deep", f"{path}?cursor={deep}", account)
    for status in (Status.FAILED, Status.APPROVAL_REJECTED, Status.PAUSED):
        yield Case(f"api-executions, {status}", f"{path}?status={status}", account)
    rare = site.pipelines[-1]
    yield Case("api-executions, pipeline", f"{path}?pipeline={site.world.pipeline.pk}", account)
    yield Case("api-executions, rare pipeline", f"{path}?pipeline={rare.pk}", account)
    yield Case("api-executions, identifier", f"{path}?identifier={rare.identifier}", account)
    yield Case("api-executions, org", f"{path}?org=default", account)
    yield Case("api-executions, project", f"{path}?org=default&project=quiet", account)
    yield Case("api-executions, reader of a quiet project", path, readers.quiet)
    yield Case("api-pipelines, deep", f"/api/v1/pipelines?cursor={_get_deep_cursor(Pipeline, 'pk')}", account)
    yield Case("api-running of a project", "/api/v1/running?org=default&project=demo", account)


def _get_deep_cursor(model: type[Model], order: str) -> str:
    """Return the cursor at nine tenths of the list."""
    rows: Any = model._default_manager.order_by(f"-{order}")
    row = rows[rows.count() * 9 // 10]
    return Cursor(False, getattr(row, order), row.pk).encode()
