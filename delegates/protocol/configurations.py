"""Configurations as agents receive them, and reports of their script runs."""

from datetime import UTC, datetime
from typing import Any

from delegates.live import publish_delegates_changed
from delegates.models import ConfigurationRun, DelegateConfiguration, DelegateEvent
from delegates.protocol.events import get_instance_label, record_event
from delegates.protocol.requests import AgentReply, AgentRequest, build_field_error, replace_unstorable
from delegates.protocol.sessions import get_session_instance
from guards.limits import START_SCRIPT_OUTPUT_CHARACTERS
from web.clock import get_database_time


def serialize_configuration(configuration: DelegateConfiguration | None) -> dict[str, Any] | None:
    """Return a configuration in the agent protocol."""
    if configuration is None:
        return None
    return {
        "id": configuration.pk,
        "name": configuration.name,
        "script": configuration.script,
        "timeout_seconds": configuration.timeout_seconds,
    }


def record_configuration_run_request(request: AgentRequest) -> AgentReply:
    """POST /agent/v1/configuration: an agent ran the script of its configuration."""
    instance, fields = get_session_instance(request.bearer), request.fields()
    configuration = instance.delegate.configuration
    if configuration is None or fields.body.get("configuration_id") != configuration.pk:
        raise build_field_error("configuration_id", "is not the configuration of this delegate")
    began = fields.get_timestamp("started_at")
    now = get_database_time()
    output = fields.body.get("output") or ""
    if not isinstance(output, str):
        raise build_field_error("output", "must be a text")
    run = ConfigurationRun.objects.create(
        configuration=configuration,
        instance=instance,
        started_at=now if began is None else datetime.fromtimestamp(began, UTC),
        duration_ms=fields.get_integer("duration_ms", 0, 2**31 - 1, default=0),
        exit_code=fields.get_integer("exit_code", -(2**31), 2**31 - 1),
        # The last output has the reason of the failure.
        output=replace_unstorable(output)[-START_SCRIPT_OUTPUT_CHARACTERS:],
    )
    ended = "ran" if run.exit_code == 0 else f"failed with exit code {run.exit_code}"
    text = f"The script of {configuration.name} {ended} on {get_instance_label(instance)}."
    record_event(instance, DelegateEvent.Kind.CONFIGURATION, text, at=now)
    publish_delegates_changed(instance.delegate_id)
    return AgentReply({})
