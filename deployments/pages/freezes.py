"""Pages of freeze windows: list and forms."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from deployments.forms import FreezeForm, NewFreezeForm
from deployments.freezes import operations
from deployments.freezes.schedule import describe_times, get_next_period, get_period_at
from deployments.models import FreezeWindow
from rbac.models import Scope
from rbac.policy import can_anywhere
from web.forms.pages import PageRequest, get_permitted_ids, get_visible, require_sign_in
from web.forms.resource_pages import CreatePage, DeletePage, FormPage, ResourcePage, VersionedEditPage
from web.http.pagination import paginate_queryset

MANAGE: Final = operations.MANAGE
# As many windows of scopes above as the list shows.
MOST_ABOVE: Final = 50
# As many identifiers as a message names.
MOST_NAMES: Final = 5


def _get_window(request: PageRequest, pk: int) -> FreezeWindow:
    return get_visible(request, MANAGE, FreezeWindow.objects.select_related("scope"), pk=pk)


class FreezePage(ResourcePage[FreezeWindow]):
    """A page about a freeze window."""

    load = staticmethod(_get_window)
    permission = MANAGE
    noun = "freeze window"
    parents = (("Freeze windows", "freezes"),)


@require_sign_in
@require_safe
def list_windows(request: PageRequest) -> HttpResponse:
    """List the freeze windows of the scope and of the scopes above it, with their state."""
    now, scope = timezone.now(), request.current_scope or Scope.objects.account()
    page = paginate_queryset(operations.list_visible_windows(request.user, scope), request)
    applicable = operations.list_applicable_windows(request.user, scope).exclude(scope=scope)
    above = list(applicable.order_by("pk")[: MOST_ABOVE + 1])
    context = {
        "page": page,
        "rows": _list_rows(page.items, now),
        "manageable_ids": get_permitted_ids(request, MANAGE, FreezeWindow, page.items),
        "above": _list_rows(above[:MOST_ABOVE], now),
        "is_more_above": len(above) > MOST_ABOVE,
        "may_add": can_anywhere(request.user, MANAGE),
        "may_view": operations.can_view_freezes(request.user, scope),
    }
    return render(request, "deployments/freezes/list.html", context)


def _list_rows(windows: Iterable[FreezeWindow], now: datetime) -> list[tuple[Any, ...]]:
    """Return each window with its current period, its next period and a description of its times."""
    return [
        (
            window,
            window.enabled and get_period_at(window, now),
            get_next_period(window, now),
            describe_times(window),
        )
        for window in windows
    ]


class FreezeFormPage(FreezePage, FormPage[FreezeWindow]):
    """Form of a window, whose message warns about identifiers that match nothing."""

    def get_done_message(self, saved: Any) -> str:
        """Return the message after saving."""
        message = super().get_done_message(saved)
        unknown_names = operations.list_unknown_names(self.request.user, saved)
        if not unknown_names:
            return message
        names = ", ".join(unknown_names[:MOST_NAMES]) + (", …" if len(unknown_names) > MOST_NAMES else "")
        return f"{message} Check these identifiers, which nothing that you can view has: {names}."


class NewFreeze(FreezeFormPage, CreatePage[FreezeWindow]):
    """Create a freeze window."""

    form_class = NewFreezeForm
    here = "New"
    done = "Freeze window {name} created."

    def save(self, form: NewFreezeForm) -> FreezeWindow:
        data = form.cleaned_data
        return operations.create_freeze(
            actor=self.request.user,
            scope=data["in_scope"],
            identifier=data["identifier"],
            spec=form.spec(),
        )


class EditFreeze(FreezeFormPage, VersionedEditPage[FreezeWindow]):
    """Edit a freeze window."""

    form_class = FreezeForm
    fields = (
        "name", "description", "begins", "ends", "time_zone", "weekly", "environment_kind", "enabled",
    )  # fmt: skip

    def get_stored(self) -> dict[str, Any]:
        window = self.object
        lists = {"services": ", ".join(window.services), "environments": ", ".join(window.environments)}
        return super().get_stored() | lists

    def get_entered(self, form: FreezeForm) -> dict[str, Any]:
        return {name: form.cleaned_data[name] for name in self.get_stored()}

    def save(self, form: FreezeForm) -> FreezeWindow:
        version = self.get_opened_version(form)
        return operations.update_freeze(
            actor=self.request.user, window=self.object, spec=form.spec(), version=version
        )


class DeleteFreeze(FreezePage, DeletePage[FreezeWindow]):
    """Delete a freeze window."""

    text = "Blocked deployments can run again immediately."

    def perform(self, **values: Any) -> None:
        operations.delete_freeze(actor=self.request.user, window=self.object)
