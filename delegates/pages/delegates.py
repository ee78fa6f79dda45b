"""Pages of delegates: list, detail with tabs and load charts, edit, admission, delete."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from delegates.connectivity import LATE_AFTER, Connectivity
from delegates.forms.delegates import DelegateForm
from delegates.forms.installation import describe_answers
from delegates.install.commands import list_removal_commands
from delegates.installations import get_upgrade_summary, list_installations
from delegates.live import DELEGATE_LIST_TOPIC
from delegates.models import Delegate, DelegateInstance
from delegates.operations import delegates as operations
from delegates.queries import delegates as queries
from delegates.queries import history
from delegates.queries.delays import list_delegate_delays
from delegates.queries.history import (
    DAY,
    QUARTER,
    LoadQuarter,
    build_uses,
    get_delegate_uses,
    list_served_connectors,
    read_agent_log,
)
from rbac.policy import Principal, can, can_anywhere, get_permissions, require
from web.clock import get_database_time
from web.forms.pages import (
    PageRequest,
    get_list_topics,
    get_permitted_ids,
    get_visible,
    require_sign_in,
)
from web.forms.resource_pages import ConfirmPage, DeletePage, EditPage, Notice, Obstacle, ResourcePage
from web.http.pagination import paginate_queryset
from web.http.problems import Problem
from web.statuses import STATUS_BADGES
from web.usages import ResourceUsages

EDIT_PERMISSION: Final = "core_delegate_edit"
MAX_SEARCH_LENGTH: Final = 128


@require_sign_in
@require_safe
def list_delegates(request: PageRequest) -> HttpResponse:
    """List the delegates of the current scope, of the scopes below, and those above that serve it."""
    now = timezone.now()
    status = request.GET.get("status", "").upper()
    status = status if status in list(Connectivity) else ""
    text, tag = (request.GET.get(name, "")[:MAX_SEARCH_LENGTH].strip() for name in ("q", "tag"))
    delegates = queries.list_visible_delegates(request.user, request.current_scope)
    if text:
        delegates = delegates.filter(name__icontains=text)
    if tag:
        delegates = queries.filter_by_tag(delegates, tag, now)
    if outdated := "outdated" in request.GET:
        delegates = queries.filter_outdated(delegates, now)
    delegates = queries.filter_by_status(delegates, status, now)
    page = paginate_queryset(queries.prefetch_instances(delegates), request, order="name", oldest_first=True)
    content = {
        "page": page,
        "delegates": queries.list_delegate_facts(page.items, now),
        "statuses": [(choice.value, STATUS_BADGES[choice.value].word) for choice in Connectivity],
        "chosen": status,
        "text": text,
        "tag": tag,
        "outdated": outdated,
        "filtered": bool(status or text or tag or outdated),
        "topics": get_list_topics(request, DELEGATE_LIST_TOPIC, is_shared=True),
        "late_after": int(LATE_AFTER.total_seconds()),
        "can_add": can_anywhere(request.user, EDIT_PERMISSION),
        "editable": get_permitted_ids(request, EDIT_PERMISSION, Delegate, page.items),
    }
    return render(request, "delegates/delegates.html", content)


WIDTH, HEIGHT = 288, 64
MIN_SCALE = 2.0


@dataclass(frozen=True)
class LoadChart:
    """Line chart with paths, scale and a text for screen readers."""

    title: str
    unit: str
    paths: tuple[str, ...]
    top: float
    newest: float
    summary: str


def build_load_charts(day: Sequence[LoadQuarter], now: datetime) -> list[LoadChart]:
    """Return the charts of CPU, memory and tasks of a day, or none without samples."""
    if not day:
        return []
    return [
        _build_chart("CPU", "%", day, now, lambda quarter: quarter.cpu),
        _build_chart("Memory", "MiB", day, now, lambda quarter: quarter.memory),
        _build_chart("Tasks", "running", day, now, lambda quarter: quarter.running),
    ]


def _build_chart(
    title: str, unit: str, day: Sequence[LoadQuarter], now: datetime, value: Callable[[LoadQuarter], float]
) -> LoadChart:
    values = [value(quarter) for quarter in day]
    top = max(*values, 1.0)
    points = [(_scale_time(quarter.at, now), _scale_value(value(quarter), top)) for quarter in day]
    summary = f"{title}: {values[-1]:.1f} {unit} now, {max(values):.1f} {unit} at most within a day."
    return LoadChart(title, unit, tuple(_build_paths(points)), top, values[-1], summary)


def _scale_time(at: datetime, now: datetime) -> float:
    begun = now - DAY
    return WIDTH * max(timedelta(), at - begun) / DAY


def _scale_value(value: float, top: float) -> float:
    return HEIGHT - MIN_SCALE - (HEIGHT - 2 * MIN_SCALE) * value / top


def _build_paths(points: Sequence[tuple[float, float]]) -> list[str]:
    """Return a path for each stretch without a gap; a single point becomes a short dash."""
    step = WIDTH * QUARTER / DAY
    stretches: list[list[tuple[float, float]]] = []
    for point in points:
        if stretches and point[0] - stretches[-1][-1][0] < 1.5 * step:
            stretches[-1].append(point)
        else:
            stretches.append([point])
    return [_build_path(stretch, step) for stretch in stretches]


def _build_path(stretch: Sequence[tuple[float, float]], step: float) -> str:
    (first_x, first_y), *later_points = stretch
    lines = "".join(f"L{x:.1f} {y:.1f}" for x, y in later_points) or f"h{step:.1f}"
    return f"M{first_x:.1f} {first_y:.1f}{lines}"


MAX_SHOWN_CONNECTORS: Final = 20


class DelegateTab(NamedTuple):
    """Tab of the delegate page with its own URL."""

    name: str
    title: str
    content: Callable[[PageRequest, Delegate, datetime], dict[str, Any]]


def select_page_relations(delegates: QuerySet[Delegate]) -> QuerySet[Delegate]:
    """Return delegates with the related rows that all their pages show."""
    return queries.prefetch_instances(delegates).select_related("configuration", "created_by", "token")


@require_sign_in
@require_safe
def show_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """Show one delegate; its script updates the open tab."""
    delegate = get_visible(
        request, queries.VIEW, select_page_relations(Delegate.objects.defer("token__value")), pk=pk
    )
    now = get_database_time()
    running = queries.count_running_tasks(instance.pk for instance in delegate.instances.all())
    tab = next((candidate for candidate in TABS if candidate.name == request.GET.get("tab")), TABS[0])
    content = {
        "delegate": delegate,
        "facts": queries.build_delegate_facts(
            delegate, running, now, queries.list_last_ends([delegate]).get(delegate.pk)
        ),
        "instances": queries.list_instance_facts(delegate, running, now),
        "unisolated": _has_unisolated_scripts(delegate),
        "rights": get_permissions(request.user, delegate),
        "tabs": TABS,
        "tab": tab.name,
        "part": f"delegates/parts/_{tab.name}.html",
        "upgrades": get_upgrade_summary(delegate, request.user),
        **_build_delays(request, delegate, now),
    }
    return render(request, "delegates/delegate.html", content | tab.content(request, delegate, now))


@require_sign_in
@require_safe
def show_delegate_delays(request: PageRequest, pk: int) -> HttpResponse:
    """Show why tasks of a delegate wait, as a part of its page, which fetches it again."""
    delegate = get_visible(request, queries.VIEW, Delegate.objects.select_related("scope"), pk=pk)
    return render(request, "parts/_delays.html", _build_delays(request, delegate, get_database_time()))


def _build_delays(request: PageRequest, delegate: Delegate, now: datetime) -> dict[str, Any]:
    url = reverse("delegate-delays", args=[delegate.pk])
    return {"delays": list_delegate_delays(request.user, delegate, now), "delays_url": url}


def _has_unisolated_scripts(delegate: Delegate) -> bool:
    if delegate.is_built_in and not settings.EMBEDDED:
        return False
    return any(
        not instance.is_isolated
        for instance in delegate.instances.all()
        if instance.status in queries.EXPECTED_STATUSES
    )


def _build_instances_content(request: PageRequest, delegate: Delegate, now: datetime) -> dict[str, Any]:
    day = history.list_load_quarters(delegate, now)
    return {
        "day": day,
        "charts": build_load_charts(day, now),
        "refusals": history.list_refusals(delegate),
        "refused_instances": history.list_refused_instances(delegate),
        "uses": list_connector_uses(request.user, delegate, now),
    }


def list_connector_uses(reader: Principal, delegate: Delegate, now: datetime) -> Any:
    """Return the connectors that a delegate can serve; `reader` gets the names of visible ones."""
    tags = frozenset(queries.list_selectable_tags(delegate, delegate.instances.all(), now))
    return build_uses(list_served_connectors(delegate, tags), reader)


def _build_tasks_content(request: PageRequest, delegate: Delegate, now: datetime) -> dict[str, Any]:
    return {"tasks": history.list_recent_tasks(delegate, request.user)}


def _build_lists_content(request: PageRequest, delegate: Delegate, now: datetime) -> dict[str, Any]:
    return {
        "allowed": history.list_allowlist_entries(delegate, now),
        "blocked": history.list_blocklist_entries(delegate, now),
        "now": now,
    }


def _build_log_content(request: PageRequest, delegate: Delegate, now: datetime) -> dict[str, Any]:
    instances: list[DelegateInstance] = list(delegate.instances.all())
    instance_id = request.GET.get("instance", "")
    chosen = next(
        (instance for instance in instances if str(instance.pk) == instance_id),
        instances[0] if instances else None,
    )
    return {"log": read_agent_log(chosen), "logging": chosen, "choices": instances[:MAX_SHOWN_CONNECTORS]}


def _build_events_content(request: PageRequest, delegate: Delegate, now: datetime) -> dict[str, Any]:
    return {"page": paginate_queryset(delegate.events.select_related("instance"), request, order="at")}


def _build_spec_content(request: PageRequest, delegate: Delegate, now: datetime) -> dict[str, Any]:
    spec = delegate.spec if isinstance(delegate.spec, dict) else {}
    return {
        "spec_values": describe_answers(spec),
        "spec_text": json.dumps(spec, indent=2, sort_keys=True, ensure_ascii=False),
    }


TABS: Final = (
    DelegateTab("instances", "Instances", _build_instances_content),
    DelegateTab("tasks", "Tasks", _build_tasks_content),
    DelegateTab("lists", "Allowed and blocked", _build_lists_content),
    DelegateTab("log", "Log", _build_log_content),
    DelegateTab("events", "Events", _build_events_content),
    DelegateTab("spec", "Spec", _build_spec_content),
)
EDIT: Final = operations.EDIT
DELETE: Final = operations.DELETE
VIEW_PIPELINE: Final = "core_pipeline_view"


def _find_delegate(request: PageRequest, pk: int) -> Delegate:
    rows = select_page_relations(Delegate.objects.defer("token__value"))
    return get_visible(request, queries.VIEW, rows, pk=pk)


class DelegatePage(ResourcePage[Delegate]):
    """A page about a delegate."""

    load = staticmethod(_find_delegate)
    noun = "delegate"
    parents = (("Delegates", "delegates"),)
    detail = "delegate"


class EditDelegate(DelegatePage, EditPage[Delegate]):
    """Edit the description, tags and configuration of a delegate."""

    permission = EDIT
    form_class = DelegateForm
    fields = ("description", "shares_scripts")

    def get_initial(self) -> dict[str, Any]:
        delegate = self.object
        tags = ", ".join(delegate.tags)
        return super().get_initial() | {"tags": tags, "configuration": delegate.configuration_id}

    def get_form_options(self) -> dict[str, Any]:
        return super().get_form_options() | {"person": self.request.user, "delegate": self.object}

    def save(self, form: DelegateForm) -> Delegate:
        operations.update_delegate(actor=self.request.user, delegate=self.object, **form.cleaned_data)
        return self.object


class DisableDelegate(DelegatePage, ConfirmPage[Delegate]):
    """Disable a delegate, after naming the connectors that it serves."""

    permission = EDIT
    verb = "Disable"
    text = "It accepts no new tasks until it is enabled again. Its running tasks finish."
    done = "Delegate {name} disabled."

    def get_notice(self) -> Notice | None:
        uses = list_connector_uses(self.request.user, self.object, get_database_time())
        if not uses:
            return None
        if self.object.is_built_in:
            advice = "They connect through Slipway. Switch them to another delegate first."
            return Notice("These connectors stop working", [advice], uses)
        advice = "They stop working if no other delegate has their tags."
        return Notice("Connectors use its tags", [advice], uses)

    def perform(self, **values: Any) -> None:
        operations.disable_delegate(actor=self.request.user, delegate=self.object)


class DeleteDelegate(DelegatePage, DeletePage[Delegate]):
    """Delete a delegate, after naming the connectors that select it by its tags."""

    permission = DELETE
    template_name = "delegates/delete.html"
    text = (
        "Its instances, log and events are deleted too. Stop its agents first: an agent that "
        "still runs registers again as a new delegate."
    )
    done = "Delegate {name} deleted."
    usage_title = "Connectors use its tags"
    usage_advice = "They stop working if no other delegate has these tags."
    although_used = "Delete even though it is in use"

    def get_usages(self) -> ResourceUsages:
        return get_delegate_uses(self.object, self.request.user)

    def get_notice(self) -> Notice | None:
        return None if self.get_obstacle() else super().get_notice()

    def render(self, content: dict[str, Any], status: int, template: str = "") -> HttpResponse:
        """Render the question with what a deployment by Slipway leaves."""
        remains = [
            {
                "installation": installation,
                "commands": list_removal_commands(installation.plan, installation.stack),
                "shows_project": can(self.request.user, VIEW_PIPELINE, installation.project),
            }
            for installation in list_installations(self.object)
        ]
        return super().render(content | {"remains": remains, "delegate": self.object}, status, template)

    def get_obstacle(self) -> Obstacle | None:
        pk = self.object.pk
        if self.object.is_built_in:
            text = "The built-in delegate cannot be deleted. It can be disabled."
            return Obstacle(text, "Disable delegate", reverse("disable-delegate", args=[pk]))
        if text := operations.describe_open_tasks(self.object):
            return Obstacle(text, "View tasks", f"{reverse('delegate', args=[pk])}?tab=tasks")
        return None

    def perform(self, **values: Any) -> None:
        operations.delete_delegate(actor=self.request.user, delegate=self.object, **values)


@require_sign_in
@require_POST
def approve_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """Approve a delegate that waits for approval."""
    delegate = _get_delegate(request, pk, EDIT)
    return _run_decision(request, delegate, operations.approve_delegate, f"{delegate.name} approved.")


@require_sign_in
@require_POST
def reject_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """Reject a delegate that waits for approval."""
    delegate = _get_delegate(request, pk, EDIT)
    return _run_decision(request, delegate, operations.reject_delegate, f"{delegate.name} rejected.")


@require_sign_in
@require_POST
def enable_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """Enable a delegate again."""
    delegate = _get_delegate(request, pk, EDIT)
    return _run_decision(
        request, delegate, operations.enable_delegate, f"{delegate.name} accepts tasks again."
    )


@require_sign_in
@require_POST
def restore_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """Take a delegate out of the archive."""
    delegate = _get_delegate(request, pk, EDIT)
    return _run_decision(request, delegate, operations.restore_delegate, f"{delegate.name} restored.")


@require_sign_in
@require_POST
def drain_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """Drain a delegate."""
    delegate = _get_delegate(request, pk, EDIT)
    message = f"{delegate.name} is draining: it finishes its tasks and accepts no new ones."
    return _run_decision(request, delegate, operations.drain_delegate, message)


@require_sign_in
@require_POST
def delete_block(request: PageRequest, pk: int, entry: int) -> HttpResponse:
    """Remove a block of a delegate."""
    delegate = _get_delegate(request, pk, EDIT)
    operations.delete_block(actor=request.user, delegate=delegate, entry=entry)
    messages.success(request, "Block removed.")
    return redirect(f"{reverse('delegate', args=[pk])}?tab=lists")


def _get_delegate(request: PageRequest, pk: int, permission: str) -> Delegate:
    delegate = _find_delegate(request, pk)
    require(request.user, permission, delegate)
    return delegate


def _run_decision(
    request: PageRequest, delegate: Delegate, operation: Callable[..., Any], message: str
) -> HttpResponse:
    try:
        operation(actor=request.user, delegate=delegate)
    except Problem as problem:
        messages.error(request, problem.detail)
    else:
        messages.success(request, message)
    return redirect("delegate", pk=delegate.pk)
