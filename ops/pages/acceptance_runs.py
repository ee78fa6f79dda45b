"""Pages of acceptance runs: list, form with plan, progress and report, cancellation."""

import json
from typing import Any, Final

from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from catalog.pages.infrastructures import ACCESS, render_cluster_field
from connectors.models import Connector
from connectors.specs.aws import parse_aws_spec
from ops.acceptance import operations
from ops.acceptance.comparison import EventPair, load_sandbox_observations, pair_events, summarize
from ops.acceptance.forms import AcceptanceRunForm
from ops.acceptance.observations import Observation
from ops.acceptance.operations import MANAGE
from ops.acceptance.plans import AcceptancePlan
from ops.acceptance.reports import AcceptanceReport, ScenarioProgressRow, list_scenario_progress
from ops.models import AcceptanceRun
from rbac.models import Scope
from rbac.policy import NotVisible, filter_visible, list_member_scopes, require
from web.forms.pages import PageRequest, require_sign_in
from web.forms.resource_pages import Breadcrumb, ConfirmPage, CreatePage, ResourcePage
from web.http.pagination import paginate_queryset

CONFIRMED: Final = "confirmed"
CHANGE: Final = "change"
_FORMATS: Final = {"json": "application/json", "md": "text/markdown; charset=utf-8"}


def _get_run(request: PageRequest, pk: int) -> AcceptanceRun:
    """Return a run. Raises `Forbidden`, or `NotVisible` without one."""
    require(request.user, MANAGE, Scope.objects.account())
    rows = AcceptanceRun.objects.select_related(
        "scope", "connector__scope", "connector__secret", "requested_by"
    )
    run = rows.filter(pk=pk).first()
    if run is None:
        raise NotVisible("This acceptance run does not exist.")
    return run


def _list_connectors(request: PageRequest) -> list[Connector]:
    """Return the AWS connectors that the user may use and that need no delegate."""
    rows = Connector.objects.filter(kind=Connector.Kind.AWS, scope__archived_at=None)
    usable = (
        filter_visible(request.user, ACCESS, rows).select_related("scope", "secret").order_by("scope__path")
    )
    return [connector for connector in usable if not parse_aws_spec(connector.spec).is_remote]


@require_sign_in
@require_safe
def list_runs(request: PageRequest) -> HttpResponse:
    """List the acceptance runs, newest first."""
    require(request.user, MANAGE, Scope.objects.account())
    page = paginate_queryset(
        AcceptanceRun.objects.select_related("requested_by").defer("observations"), request
    )
    return render(request, "ops/acceptance/list.html", {"page": page})


@require_sign_in
@require_safe
def show_run(request: PageRequest, pk: int) -> HttpResponse:
    """Show the progress of a run, and its report as far as it has come."""
    run = _get_run(request, pk)
    sandbox = load_sandbox_observations()
    rows = list_scenario_progress(run)
    content = {
        "run": run,
        "rows": rows,
        "done": sum(row.observation is not None for row in rows),
        "report": AcceptanceReport.of(run),
        "comparisons": [_compare(row, sandbox.get(row.scenario.name)) for row in rows if row.observation],
    }
    return render(request, "ops/acceptance/run.html", content)


def _compare(row: ScenarioProgressRow, sandbox: Observation | None) -> dict[str, Any]:
    """Return a scenario beside the sandbox: its facts, and the pairs of its events."""
    observation = row.observation or Observation(row.scenario.name)
    expected = sandbox or Observation(row.scenario.name)
    facts, sandbox_facts = summarize(observation), summarize(expected)
    events: list[EventPair] = list(pair_events(observation.events, expected.events))
    return {
        "scenario": row.scenario,
        "facts": [(name, texts, sandbox_facts[name]) for name, texts in facts.items()],
        "events": events,
        "differences": sum(not pair.is_equal for pair in events),
    }


@require_sign_in
@require_safe
def download_report(request: PageRequest, pk: int, suffix: str) -> HttpResponse:
    """Return the report of a run as JSON or Markdown."""
    run = _get_run(request, pk)
    if suffix not in _FORMATS:
        raise Http404
    report = AcceptanceReport.of(run)
    text = report.to_markdown() if suffix == "md" else json.dumps(report.to_json(), indent=2) + "\n"
    name = f"acceptance-{run.key}.{suffix}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(text, content_type=_FORMATS[suffix], headers=headers)


@require_sign_in
@require_safe
def choose_cluster(request: PageRequest) -> HttpResponse:
    """Render the cluster field with the clusters of a connector and region."""
    require(request.user, MANAGE, Scope.objects.account())
    return render_cluster_field(request, _list_connectors(request))


class NewAcceptanceRun(CreatePage[AcceptanceRun]):
    """Enter the place of a run, read what it creates and costs, and start it."""

    template_name = "ops/acceptance/form.html"
    permission = MANAGE
    noun = "acceptance run"
    button = "Review plan"
    parents = (("System", "system"), ("Acceptance runs", "acceptance-runs"))
    detail = "acceptance-run"
    form_class = AcceptanceRunForm
    refusal_title = "Could not start the run"

    def prepare(self) -> None:
        require(self.request.user, MANAGE, Scope.objects.account())

    def get_form_options(self) -> dict[str, Any]:
        connectors = _list_connectors(self.request)
        organizations = list_member_scopes(self.request.user).filter(kind=Scope.Kind.ORGANIZATION)
        first = connectors[0] if connectors else None
        region = parse_aws_spec(first.spec).test_region if first else ""
        initial = {"connector": first, "region": region}
        return {"connectors": connectors, "organizations": organizations, "initial": initial}

    def get_draft_scope(self) -> Scope | None:
        return Scope.objects.account()

    def post(self, request: PageRequest, **kwargs: Any) -> HttpResponseBase:
        """Show the form again with its values, if that is asked for; else show the plan, or start."""
        if CHANGE in request.POST:
            return self.render_form(self.build_form(), 200)
        return super().post(request, **kwargs)

    def save(self, form: AcceptanceRunForm) -> AcceptancePlan | AcceptanceRun:
        plan = operations.plan_run(actor=self.request.user, spec=form.build_spec())
        if CONFIRMED not in self.request.POST:
            return plan
        return operations.start_run(actor=self.request.user, plan=plan)

    def finish(self, saved: AcceptancePlan | AcceptanceRun) -> HttpResponseBase:
        if isinstance(saved, AcceptanceRun):
            return super().finish(saved)
        content = {"plan": saved, "form": self.build_form(), "here": "Review plan", "confirmed": CONFIRMED}
        return self.render(content, 200, "ops/acceptance/plan.html")


class AcceptanceRunPage(ResourcePage[AcceptanceRun]):
    """Page about an acceptance run, for those who may use its connector, too."""

    load = staticmethod(_get_run)
    permission = MANAGE
    noun = "run"
    parents = (("System", "system"), ("Acceptance runs", "acceptance-runs"))

    def check_access(self, resource: AcceptanceRun) -> None:
        operations.require_run_access(self.request.user, resource.connector)

    def get_name(self) -> str:
        return str(self.object)

    def get_breadcrumbs(self) -> list[Breadcrumb]:
        run = self.object
        return [*self.get_parents(), Breadcrumb(f"Run {run.key}", _get_run_url(run))]


def _get_run_url(run: AcceptanceRun) -> str:
    return reverse("acceptance-run", args=[run.pk])


class CancelAcceptanceRun(AcceptanceRunPage, ConfirmPage[AcceptanceRun]):
    """Cancel a run."""

    verb = "Cancel"
    text = (
        "The deployment under way is aborted, and everything that the run created in AWS and in Slipway is "
        "deleted. The report keeps the scenarios that have ended."
    )
    done = "The run is canceled. What it created is deleted now."

    def perform(self, **values: Any) -> None:
        operations.cancel_run(actor=self.request.user, run=self.object)


class DeleteAcceptanceLeftovers(AcceptanceRunPage, ConfirmPage[AcceptanceRun]):
    """Delete what a run could not delete at its end."""

    verb = "Delete leftovers of"
    text = "ECS services and task definitions with the name and the tag of this run are deleted."
    done = "The leftovers are deleted now."

    def perform(self, **values: Any) -> None:
        operations.delete_leftovers(actor=self.request.user, run=self.object)
