"""Routes of the automatic upgrades of a delegate that Slipway deployed."""

from collections.abc import Mapping
from typing import Any, Final

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from delegates.models import Delegate
from deployments.delegate_installs.upgrade_queries import AutomaticUpgrades, load_automatic_upgrades
from deployments.delegate_installs.upgrade_windows import (
    DURATION_MINUTES,
    WEEKDAYS,
    UpgradeTimes,
    remove_upgrade_window,
    set_upgrade_window,
)
from web.api.views import BaseApiView
from web.http.problems import BadInput

VIEW: Final = "core_delegate_view"


class UpgradeWindowInput(serializers.Serializer[Any]):
    """Weekly window in which Slipway upgrades a delegate by itself."""

    days = serializers.ListField(
        child=serializers.ChoiceField(choices=WEEKDAYS), min_length=1, max_length=len(WEEKDAYS)
    )
    begins = serializers.CharField(max_length=5, help_text="Local time, such as 02:00.")
    duration_minutes = serializers.IntegerField(
        min_value=DURATION_MINUTES.start, max_value=DURATION_MINUTES.stop - 1
    )
    time_zone = serializers.CharField(max_length=64, default="UTC", help_text="Such as Europe/Berlin.")


class UpgradeWindowChange(serializers.Serializer[Any]):
    """Window to set; null ends the automatic upgrades."""

    window = UpgradeWindowInput(allow_null=True)


class AutomaticUpgradeDocument(serializers.Serializer[Any]):
    """Upgrade that Slipway started, or tried to start, in a window."""

    result = serializers.CharField(source="word", help_text="Running, Succeeded, Failed or Skipped.")
    image = serializers.CharField()
    problem = serializers.CharField()
    execution_id = serializers.SerializerMethodField()
    started_at = serializers.DateTimeField(source="at")

    def get_execution_id(self, upgrade: Any) -> str | None:
        """Return its execution; null if there was none, or retention has deleted it."""
        return upgrade.execution or None


class AutomaticUpgradesDocument(serializers.Serializer[Any]):
    """Automatic upgrades of a delegate; without a window there are none."""

    window = UpgradeWindowInput(allow_null=True)
    allowed_by = serializers.CharField(
        allow_null=True, help_text="User whose permissions the upgrades have; null if the user is gone."
    )
    due_at = serializers.DateTimeField(allow_null=True, help_text="When the window opens next.")
    upgrades = AutomaticUpgradeDocument(many=True, help_text="The newest 20, the last one first.")


WINDOW_EXAMPLE = OpenApiExample(
    "Saturday night",
    {
        "window": {
            "days": ["Saturday"],
            "begins": "02:00",
            "duration_minutes": 120,
            "time_zone": "Europe/Berlin",
        }
    },
    request_only=True,
)


class DelegateUpgradeWindowRoute(BaseApiView):
    """Window of a delegate's automatic upgrades."""

    @extend_schema(responses=AutomaticUpgradesDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(_serialize(load_automatic_upgrades(self._get_delegate(pk))))

    @extend_schema(
        request=UpgradeWindowChange, responses=AutomaticUpgradesDocument, examples=[WINDOW_EXAMPLE]
    )
    def put(self, request: Request, pk: int) -> Response:
        delegate = self._get_delegate(pk)
        window = self.get_validated_body(UpgradeWindowChange)["window"]
        if window is None:
            remove_upgrade_window(actor=self.principal, delegate=delegate)
        else:
            self._set_window(delegate, window)
        return Response(_serialize(load_automatic_upgrades(delegate)))

    def _set_window(self, delegate: Delegate, window: Mapping[str, Any]) -> None:
        try:
            set_upgrade_window(actor=self.principal, delegate=delegate, times=_build_times(window))
        except BadInput as refused:
            errors = [{**error, "path": f"window.{error['path']}"} for error in refused.errors]
            raise BadInput(str(refused), errors=errors) from refused

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        remove_upgrade_window(actor=self.principal, delegate=self._get_delegate(pk))
        return Response(status=204)

    def _get_delegate(self, pk: int) -> Delegate:
        rows = Delegate.objects.select_related("scope", "token__scope", "configuration")
        return self.get_visible(VIEW, rows.prefetch_related("instances"), pk=pk)


def _build_times(window: Mapping[str, Any]) -> UpgradeTimes:
    return UpgradeTimes(
        tuple(WEEKDAYS.index(day) for day in window["days"]),
        window["begins"],
        window["duration_minutes"],
        window["time_zone"],
    )


def _serialize(automatic: AutomaticUpgrades) -> Any:
    window, times = automatic.window, automatic.times
    document: dict[str, Any] = {"window": None, "allowed_by": None, "due_at": None}
    if window is not None and times is not None:
        document = {
            "window": {
                "days": [WEEKDAYS[day] for day in times.days],
                "begins": times.begins,
                "duration_minutes": times.duration_minutes,
                "time_zone": times.time_zone,
            },
            "allowed_by": window.allowed_by.username if window.allowed_by else None,
            "due_at": window.due_at,
        }
    return AutomaticUpgradesDocument({**document, "upgrades": automatic.upgrades}).data
