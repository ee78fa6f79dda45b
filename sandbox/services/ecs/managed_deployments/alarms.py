"""CloudWatch alarms that end a deployment: `deploymentConfiguration.alarms`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moto.cloudwatch.models import cloudwatch_backends

from sandbox.services.ecs.records import SandboxService, ServiceDeployment

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

ALARM: Final = "ALARM"


def start_monitoring(record: ServiceDeployment) -> None:
    """Record the alarms of a deployment as monitored, or as disabled."""
    settings = _get_settings(record)
    names = settings.get("alarmNames") or []
    status = "MONITORING" if settings.get("enable") and names else "DISABLED"
    record.alarms = {"status": status, "alarmNames": names, "triggeredAlarmNames": []}


def _get_settings(record: ServiceDeployment) -> Mapping[str, Any]:
    settings: Mapping[str, Any] = record.deployment_configuration.get("alarms") or {}
    return settings


def read_alarms(backend: "SandboxEcs", service: SandboxService) -> tuple[str, bool]:
    """Return why an alarm ends the open deployment ("" if none does), and whether it is rolled back.

    Source: ECS developer guide, CloudWatch alarms and deployment failures.
    """
    record = service.history[0] if service.history else None
    if (
        record is None
        or record.status != "IN_PROGRESS"
        or (record.alarms or {}).get("status") != "MONITORING"
    ):
        return "", False
    alarms = cloudwatch_backends[backend.account_id][backend.region_name].alarms
    names = record.alarms["alarmNames"] if record.alarms else []
    triggered = [name for name in names if name in alarms and alarms[name].state_value == ALARM]
    if not triggered:
        return "", False
    record.alarms = {"status": "TRIGGERED", "alarmNames": names, "triggeredAlarmNames": triggered}
    reason = f"Service deployment rolled back because alarms were triggered: {', '.join(triggered)}."
    return reason, bool(_get_settings(record).get("rollback"))


def end_monitoring(record: ServiceDeployment) -> None:
    if record.alarms and record.alarms["status"] == "MONITORING":
        record.alarms = {**record.alarms, "status": "MONITORING_COMPLETE"}
