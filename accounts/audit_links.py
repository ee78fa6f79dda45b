"""Which page shows what an audit entry speaks of."""

from typing import Final, NamedTuple

from django.apps import apps
from django.urls import reverse

from rbac.models import AuditEntry
from rbac.policy import Principal, visible_to


class _Place(NamedTuple):
    page: str
    permission: str


# The apps above are named by what their tables and addresses are called: this package imports none of them.
_PLACES: Final = {
    "connectors.connector": _Place("connector", "core_connector_view"),
    "connectors.secret": _Place("secret", "core_secret_view"),
    "connectors.filenode": _Place("file", "core_file_view"),
    "notifications.notificationrule": _Place("notification-rule", "core_notificationrule_view"),
    "delegates.delegate": _Place("delegate", "core_delegate_view"),
    "delegates.delegatetoken": _Place("delegate-token", "core_delegate_view"),
    "delegates.delegateconfiguration": _Place("delegate-configuration", "core_delegateconfiguration_view"),
    "delegates.delegatetask": _Place("delegate-task", "core_delegate_view"),
    "catalog.service": _Place("service", "core_service_view"),
    "catalog.environment": _Place("environment", "core_environment_view"),
    "pipelines.pipeline": _Place("pipeline", "core_pipeline_view"),
    "deployments.execution": _Place("execution", "core_pipeline_view"),
}


def page_of_thing(entry: AuditEntry, reader: Principal) -> str:
    """Return the address of the page about the entry's thing, "" where the reader would see none."""
    place = _PLACES.get(entry.thing_type)
    if place is None:
        return ""
    things = apps.get_model(entry.thing_type)._default_manager.filter(pk=entry.thing_id)
    if not visible_to(reader, place.permission, things).exists():
        return ""
    return reverse(place.page, args=[entry.thing_id])
