"""Pages of triggers: list, create, show, edit, enable, rotate the secret, delete, try."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from pipelines.forms.triggers import NewTriggerForm, TrialForm, TriggerForm, build_initial
from pipelines.models import Pipeline, Trigger, TriggerFiring
from pipelines.pages.pipelines import get_pipeline
from pipelines.triggers import operations
from pipelines.triggers.base import TriggerKind
from pipelines.triggers.events import parse_payload
from pipelines.triggers.firings import find_last_firings
from pipelines.triggers.receiving import build_address, count_refusals
from pipelines.triggers.registry import find_kind, list_kinds
from pipelines.triggers.trials import Trial, try_event, try_payload
from rbac.policy import NotVisible, can, get_permissions, require
from steps.expressions import format_value
from web.clock import get_database_time
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, require_get_or_post, require_sign_in
from web.forms.resource_pages import (
    Breadcrumb,
    ConfirmPage,
    CreateChildPage,
    DeletePage,
    FormPage,
    ResourcePage,
    VersionedEditPage,
)
from web.http.pagination import paginate_queryset
from web.http.problems import BadInput, Problem

FILTERS: Final = (("", "All"), *TriggerFiring.Status.choices)


def get_trigger(request: PageRequest, pk: int) -> Trigger:
    """Return a visible trigger. Raises `NotVisible` (404)."""
    return get_visible(request, operations.VIEW, operations.list_triggers(), pk=pk)


def list_trigger_parents(pipeline: Pipeline) -> list[Breadcrumb]:
    """Return the pages above those of a pipeline's triggers."""
    return [
        Breadcrumb("Pipelines", reverse("pipelines")),
        Breadcrumb(pipeline.name, reverse("pipeline", args=[pipeline.pk])),
        Breadcrumb("Triggers", reverse("triggers", args=[pipeline.pk])),
    ]


@require_sign_in
@require_safe
def list_pipeline_triggers(request: PageRequest, pk: int) -> HttpResponse:
    """List the triggers of a pipeline, each with its last firing."""
    pipeline = get_pipeline(request, pk)
    page = paginate_queryset(operations.list_triggers().filter(pipeline=pipeline), request)
    last = find_last_firings(page.items)
    content = {
        "pipeline": pipeline,
        "page": page,
        "rows": [(trigger, find_kind(trigger.kind), last.get(trigger.pk)) for trigger in page.items],
        "may_edit": can(request.user, operations.EDIT, pipeline),
    }
    return render(request, "pipelines/triggers/list.html", content)


@require_sign_in
@require_safe
def choose_kind(request: PageRequest, pk: int) -> HttpResponse:
    """Offer the kinds of a new trigger."""
    pipeline = get_pipeline(request, pk)
    require(request.user, operations.EDIT, pipeline)
    return render(
        request, "pipelines/triggers/kinds.html", {"pipeline": pipeline, "kinds": list_kinds().values()}
    )


@require_sign_in
@require_safe
def show_trigger(request: PageRequest, pk: int) -> HttpResponse:
    """Show a trigger, how to set up its sender, and its firings, newest first."""
    trigger = get_trigger(request, pk)
    firings = TriggerFiring.objects.filter(trigger=trigger).defer("payload", "values", "decision")
    chosen = request.GET.get("status", "")
    if chosen in TriggerFiring.Status.values:
        firings = firings.filter(status=chosen)
    content = {
        "trigger": trigger,
        "kind": find_kind(trigger.kind),
        "settings": _list_settings(trigger),
        "times": _list_next_times(trigger),
        "watches": sorted(trigger.watches.all(), key=lambda watch: (watch.kind, watch.subject)),
        **_build_sender(trigger),
        "rights": get_permissions(request.user, trigger),
        "refusals": count_refusals(trigger),
        "filters": FILTERS,
        "chosen": chosen,
        "page": paginate_queryset(firings, request, order="received_at"),
    }
    return render(request, "pipelines/triggers/trigger.html", content)


def _build_sender(trigger: Trigger) -> dict[str, Any]:
    kind, address = find_kind(trigger.kind), build_address(trigger)
    return {"address": address, "setup_steps": kind.list_setup_steps(trigger.spec, address) if kind else []}


def _list_settings(trigger: Trigger) -> list[tuple[str, str]]:
    """Return the labels and values of the settings that are set."""
    kind = find_kind(trigger.kind)
    settings = kind.settings if kind else ()
    return [(setting.label, setting.format_value(trigger.spec.get(setting.name))) for setting in settings]


class TriggerPage(ResourcePage[Trigger]):
    """A page about a trigger."""

    load = staticmethod(get_trigger)
    noun = "trigger"
    detail = "trigger"
    permission = operations.EDIT

    def get_parents(self) -> list[Breadcrumb]:
        return list_trigger_parents(self.object.pipeline)


def _list_next_times(trigger: Trigger) -> list[datetime]:
    kind = find_kind(trigger.kind)
    return kind.list_next_times(trigger.spec, get_database_time()) if kind and trigger.is_enabled else []


def _render_secret(page: ResourcePage[Any], trigger: Trigger, secret: str) -> HttpResponse:
    """Show a new secret, once."""
    content = {"trigger": trigger, "secret": secret, "here": trigger.name, **_build_sender(trigger)}
    return page.render(content, 200, "pipelines/triggers/secret.html")


def _get_pipeline_of_new(request: PageRequest, pk: int, kind: str) -> Pipeline:
    if find_kind(kind) is None:
        raise NotVisible("There is no such kind of trigger.")
    return get_pipeline(request, pk)


class TimesPage(FormPage[Any]):
    """Form page of a trigger that shows the next times of the entered settings before they are saved."""

    template_name = "pipelines/triggers/form.html"

    def get_kind(self) -> TriggerKind:
        """Return the kind of the trigger."""
        raise NotImplementedError

    def get_context(self, form: Any) -> dict[str, Any]:
        kind = self.get_kind()
        values = [(f"<+trigger.{name}>", text) for name, text in kind.values.items()]
        return {"has_times": kind.has_times, "event_values": values, "has_payload": kind.has_payload}

    def post(self, request: PageRequest, **kwargs: Any) -> HttpResponseBase:
        if "times" not in request.POST:
            return super().post(request, **kwargs)
        form: Any = self.build_form()
        kind, times = self.get_kind(), []
        spec = form.read_settings()
        if spec is not None:
            problems = kind.list_problems(spec)
            if problems:
                form.add_problem(BadInput("The settings are not valid.", errors=problems))
            else:
                times = kind.list_next_times(spec, get_database_time())
        return self.render_form(form, times=times)


@method_decorator(never_cache, name="dispatch")
class NewTrigger(TimesPage, CreateChildPage[Pipeline]):
    """Create a trigger of the kind in the address, and show its secret once."""

    load = staticmethod(_get_pipeline_of_new)
    permission = operations.EDIT
    noun = "trigger"
    form_class = NewTriggerForm
    done = "Trigger {name} created."

    def get_title(self) -> str:
        return f"New trigger: {self.get_kind().title}"

    def get_kind(self) -> TriggerKind:
        return operations.require_kind(self.kwargs["kind"])

    def get_breadcrumbs(self) -> list[Breadcrumb]:
        return list_trigger_parents(self.object)

    def get_hint(self) -> str:
        return f"Starts a run {self.get_kind().description}."

    def get_form_options(self) -> dict[str, Any]:
        return {"kind": self.get_kind(), "pipeline": self.object, "person": self.request.user}

    def save(self, form: NewTriggerForm) -> tuple[Trigger, str]:
        return operations.create_trigger(
            actor=self.request.user,
            pipeline=self.object,
            identifier=form.cleaned_data["identifier"],
            kind=self.get_kind().identifier,
            spec=form.build_spec(),
        )

    def finish(self, saved: tuple[Trigger, str]) -> HttpResponse:
        trigger, secret = saved
        if secret:
            return _render_secret(self, trigger, secret)
        messages.success(self.request, self.done.format(name=trigger.name))
        return redirect("trigger", pk=trigger.pk)


class EditTrigger(TimesPage, TriggerPage, VersionedEditPage[Trigger]):
    """Edit a trigger; its kind, identifier and secret stay."""

    form_class = TriggerForm
    done = "Trigger {name} saved."

    def get_kind(self) -> TriggerKind:
        return operations.require_kind(self.object.kind)

    def get_stored(self) -> dict[str, Any]:
        return build_initial(self.object)

    def get_entered(self, form: TriggerForm) -> dict[str, Any]:
        account = form.cleaned_data["service_account"]
        names = [name for name in form.fields if name != "version"]
        entered = {name: form.cleaned_data[name] for name in names}
        return entered | {"service_account": account.pk if account else None}

    def get_form_options(self) -> dict[str, Any]:
        more = {"kind": self.get_kind(), "pipeline": self.object.pipeline, "person": self.request.user}
        return super().get_form_options() | more

    def build_form(self) -> TriggerForm:
        form = TriggerForm(get_posted_data(self.request), **self.get_form_options())
        form.keep_account(self.object.service_account)
        return form

    def save(self, form: TriggerForm) -> Trigger:
        return operations.update_trigger(
            actor=self.request.user,
            trigger=self.object,
            spec=form.build_spec(),
            version=self.get_opened_version(form),
        )


class DeleteTrigger(TriggerPage, DeletePage[Trigger]):
    """Delete a trigger with its firings."""

    text = "Its address stops working, and its firings are deleted. Executions that it started stay."
    done = "Trigger {name} deleted."

    def perform(self, **values: Any) -> None:
        operations.delete_trigger(actor=self.request.user, trigger=self.object)


@method_decorator(never_cache, name="dispatch")
class RotateTriggerSecret(TriggerPage, ConfirmPage[Trigger]):
    """Replace the secret of a trigger, and show the new one once."""

    verb = "Rotate secret of"
    here = "Rotate secret"
    text = "The current secret stops working at once. Enter the new one at the sender."

    def post(self, request: PageRequest, **kwargs: Any) -> HttpResponse:
        try:
            secret = operations.rotate_secret(actor=request.user, trigger=self.object)
        except Problem as problem:
            form = self.build_form()
            return self.render_question(form, form.refuse_operation(problem))
        return _render_secret(self, self.object, secret)


@require_sign_in
@require_POST
def enable_trigger(request: PageRequest, pk: int) -> HttpResponse:
    """Enable a trigger, or disable it."""
    trigger = get_trigger(request, pk)
    is_enabled = request.POST.get("enabled") == "true"
    operations.set_enabled(actor=request.user, trigger=trigger, is_enabled=is_enabled)
    messages.success(request, f"Trigger {trigger.name} {'enabled' if is_enabled else 'disabled'}.")
    return redirect("trigger", pk=pk)


@require_sign_in
@require_get_or_post
def try_trigger(request: PageRequest, pk: int) -> HttpResponse:
    """Show what a payload would lead to: checks one by one, tag and inputs; nothing is started."""
    trigger = get_trigger(request, pk)
    require(request.user, operations.EXECUTE, trigger.pipeline)
    kind = operations.require_kind(trigger.kind)
    form = TrialForm(get_posted_data(request), kind=kind, initial=TrialForm.build_initial(kind, None))
    trials: list[Trial] = []
    firing = _get_tried_firing(request, trigger)
    if firing is not None:
        form = TrialForm(kind=kind, initial=TrialForm.build_initial(kind, firing))
        trials = [try_event(trigger, firing.summary, firing.values, firing.payload)]
    elif request.method == "POST" and form.is_valid():
        try:
            trials = try_payload(trigger, parse_payload(form.cleaned_data["payload"].encode()))
        except Problem as problem:
            form.add_error("payload", problem.detail)
    content = {
        "trigger": trigger,
        "form": form,
        "trials": [(trial, list_event_values(trial.values)) for trial in trials],
        "is_tried": bool(trials) or (request.method == "POST" and not form.errors),
        "title": f"Try {trigger.name}",
        "button": "Try",
        "back": reverse("trigger", args=[pk]),
        "refusal_title": "Could not read the payload",
        "breadcrumbs": [
            *list_trigger_parents(trigger.pipeline),
            Breadcrumb(trigger.name, reverse("trigger", args=[pk])),
        ],
        "here": "Try",
    }
    return render(request, "pipelines/triggers/try.html", content, status=form.http_status)


def list_event_values(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the expressions of an event's values, each with its value as text."""
    return [(f"<+trigger.{name}>", format_value(value)) for name, value in values.items()]


def _get_tried_firing(request: PageRequest, trigger: Trigger) -> TriggerFiring | None:
    """Return the stored firing that the address names, for a page that was not posted."""
    if request.method == "POST" or "firing" not in request.GET:
        return None
    rows = TriggerFiring.objects.filter(trigger=trigger)
    return get_visible(request, operations.VIEW, rows, pk=request.GET["firing"])
