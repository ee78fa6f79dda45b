"""Configurations as agents get them, and what became of their scripts."""

from datetime import UTC, datetime
from typing import Any

from delegates.models import ConfigurationRun, DelegateConfiguration, DelegateEvent
from delegates.protocol.fields import bad, storable
from delegates.protocol.happenings import called, note
from delegates.protocol.requests import AgentRequest, Reply
from delegates.protocol.sessions import instance_of
from delegates.telling import tell
from guards.limits import AGENT_CONFIGURATION_OUTPUT
from web.clock import database_now


def document(configuration: DelegateConfiguration | None) -> dict[str, Any] | None:
    """What an agent is told of its configuration."""
    if configuration is None:
        return None
    return {
        "id": configuration.pk,
        "name": configuration.name,
        "script": configuration.script,
        "timeout_seconds": configuration.timeout_seconds,
    }


def run_reported(request: AgentRequest) -> Reply:
    """POST /agent/v1/configuration: an agent ran the script of its configuration."""
    instance, fields = instance_of(request.bearer), request.fields()
    configuration = instance.delegate.configuration
    if configuration is None or fields.body.get("configuration_id") != configuration.pk:
        raise bad("configuration_id", "is not the configuration of this delegate")
    began = fields.moment("started_at")
    now = database_now()
    output = fields.body.get("output") or ""
    if not isinstance(output, str):
        raise bad("output", "must be a text")
    run = ConfigurationRun.objects.create(
        configuration=configuration,
        instance=instance,
        started_at=now if began is None else datetime.fromtimestamp(began, UTC),
        duration_ms=fields.whole("duration_ms", 0, 2**31 - 1, default=0),
        exit_code=fields.whole("exit_code", -(2**31), 2**31 - 1),
        # What was printed last says why it failed.
        output=storable(output)[-AGENT_CONFIGURATION_OUTPUT:],
    )
    ended = "ran" if run.exit_code == 0 else f"failed with exit code {run.exit_code}"
    text = f"The script of {configuration.name} {ended} on {called(instance)}."
    note(instance, DelegateEvent.Kind.CONFIGURATION, text, at=now)
    tell(instance.delegate_id)
    return Reply({})
