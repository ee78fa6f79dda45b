"""Page of a delegate's automatic upgrades: their window, and the last ones."""

from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache

from delegates.models import Delegate
from delegates.operations.installation import INSTALL_PERMISSION
from deployments.delegate_installs.upgrade_queries import AutomaticUpgrades, load_automatic_upgrades
from deployments.delegate_installs.upgrade_windows import (
    WEEKDAYS,
    UpgradeTimes,
    describe_length,
    remove_upgrade_window,
    set_upgrade_window,
)
from deployments.forms import list_time_zones
from rbac.policy import require
from web.forms.page_forms import PageForm
from web.forms.pages import PageRequest, get_visible, require_get_or_post, require_sign_in
from web.http.problems import Problem

VIEW: Final = "core_delegate_view"
# Hours that people can choose; the API takes any number of minutes.
_HOURS: Final = (1, 2, 3, 4, 6, 8, 12, 24)
_SATURDAY: Final = 5


class UpgradeWindowForm(PageForm):
    """Days, begin, length and time zone of a window."""

    days = forms.TypedMultipleChoiceField(
        coerce=int, choices=list(enumerate(WEEKDAYS)), widget=forms.CheckboxSelectMultiple
    )
    begins = forms.CharField(
        label="Begins at",
        max_length=5,
        widget=forms.TextInput(attrs={"type": "time", "class": "input"}),
        help_text="An upgrade begins within half a minute of this time.",
    )
    duration_minutes = forms.TypedChoiceField(label="Open for", coerce=int)
    time_zone = forms.ChoiceField(choices=list_time_zones)
    pairs = (("begins", "duration_minutes", "time_zone"),)

    def __init__(self, *args: Any, stored_minutes: int | None, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="upgrade-%s", **kwargs)
        minutes = sorted({*(60 * hours for hours in _HOURS), *([stored_minutes] if stored_minutes else [])})
        self.fields["duration_minutes"].choices = [  # type: ignore[attr-defined]
            (number, describe_length(number)) for number in minutes
        ]

    @property
    def times(self) -> UpgradeTimes:
        """Return the times of a valid form."""
        data = self.cleaned_data
        return UpgradeTimes(tuple(data["days"]), data["begins"], data["duration_minutes"], data["time_zone"])


@require_sign_in
@never_cache
@require_get_or_post
def change_upgrade_window(request: PageRequest, pk: int) -> HttpResponse:
    """Show the automatic upgrades of a delegate, and change or end them."""
    rows = Delegate.objects.select_related("scope", "token__scope", "configuration")
    delegate = get_visible(request, VIEW, rows.prefetch_related("instances"), pk=pk)
    require(request.user, INSTALL_PERMISSION, delegate)
    automatic = load_automatic_upgrades(delegate)
    if request.method == "POST" and "end" in request.POST:
        remove_upgrade_window(actor=request.user, delegate=delegate)
        messages.success(request, "Slipway no longer upgrades the delegate by itself.")
        return redirect("delegate-upgrades", pk=pk)
    form = _build_form(request, automatic)
    if request.method == "POST" and form.is_valid():
        try:
            set_upgrade_window(actor=request.user, delegate=delegate, times=form.times)
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(request, f"Slipway upgrades the delegate {form.times}.")
            return redirect("delegate-upgrades", pk=pk)
    content = {"delegate": delegate, "form": form, "automatic": automatic}
    return render(request, "deployments/delegates/upgrades.html", content, status=form.http_status)


def _build_form(request: PageRequest, automatic: AutomaticUpgrades) -> UpgradeWindowForm:
    times = automatic.times or UpgradeTimes((_SATURDAY,), "02:00", 120)
    options: dict[str, Any] = {"stored_minutes": times.duration_minutes}
    if request.method == "POST":
        return UpgradeWindowForm(request.POST, **options)
    initial = {
        "days": list(times.days),
        "begins": times.begins,
        "duration_minutes": times.duration_minutes,
        "time_zone": times.time_zone,
    }
    return UpgradeWindowForm(initial=initial, **options)
