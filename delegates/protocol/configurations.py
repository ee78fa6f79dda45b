"""Configurations as agents receive them, the values of their secrets, and reports of script runs."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from connectors.models import Secret
from connectors.queries import describe_missing_secret, find_secrets
from connectors.secret_expressions import parse_secret_reference, replace_by_variables
from connectors.secret_managers.base import SecretUnreadable
from connectors.secret_values import read_secret_value
from delegates.live import publish_delegates_changed
from delegates.models import (
    ConfigurationRun,
    Delegate,
    DelegateConfiguration,
    DelegateEvent,
    DelegateInstance,
)
from delegates.protocol.events import get_instance_label, record_event
from delegates.protocol.requests import AgentReply, AgentRequest, build_field_error, replace_unstorable
from delegates.protocol.sessions import get_session_instance
from guards.limits import START_SCRIPT_OUTPUT_CHARACTERS
from guards.masks import HidingMask, SecretMask
from web.clock import get_database_time
from web.http.problems import Conflict, ServiceUnavailable

SECRETS_FEATURE: Final = "configuration-secrets"
"""Name in `delegates.agent.FEATURES` of agents that fetch the values of a script and hide them."""


@dataclass(frozen=True)
class AgentScript:
    """A script with a variable in place of each secret; without its secrets, the problem of one of them."""

    text: str
    secrets: Mapping[str, Secret] = field(default_factory=dict, repr=False)
    problem: str = ""

    @property
    def revision(self) -> str:
        """Return a text that changes with each new value; empty without secrets."""
        versions = [f"{name}:{secret.pk}:{secret.version}" for name, secret in self.secrets.items()]
        return hashlib.sha256("\n".join(versions).encode()).hexdigest()[:16] if versions else ""

    def read_values(self) -> dict[str, str]:
        """Return the values of the variables. Raises `SecretUnreadable`."""
        if self.problem:
            raise SecretUnreadable(self.problem)
        return {
            name: read_secret_value(secret, reader="a script of delegates")
            for name, secret in self.secrets.items()
        }

    def build_mask(self) -> SecretMask:
        """Return the mask of its output, which hides everything while a value cannot be read."""
        try:
            return SecretMask(tuple(self.read_values().values()))
        except SecretUnreadable as unreadable:
            return HidingMask(str(unreadable))


def build_agent_script(configuration: DelegateConfiguration) -> AgentScript:
    """Return the script of a configuration with its secrets, as seen from its scope."""
    text, expressions = replace_by_variables(configuration.script, parse_secret_reference)
    if not expressions:
        return AgentScript(text)
    references = {name: parse_secret_reference(expression) for name, expression in expressions.items()}
    found = find_secrets(configuration.scope, references.values())
    for reference in references.values():
        if reference not in found:
            return AgentScript("", problem=describe_missing_secret(configuration.scope, reference))
        if found[reference].is_reference:
            return AgentScript("", problem=describe_remote_secret(reference))
    return AgentScript(text, {name: found[reference] for name, reference in references.items()})


def build_revision(configuration_id: int | None, updated_at: datetime | None) -> str:
    """Return the text by which agents report the configuration that they have; empty without one."""
    if configuration_id is None or updated_at is None:
        return ""
    return f"{configuration_id}:{updated_at.isoformat()}"


def describe_remote_secret(reference: str) -> str:
    """Return the message for a secret whose value is in a secret manager."""
    return (
        f"The value of the secret {reference} is in a secret manager, where configurations cannot read it. "
        "Store the value in Slipway, or let the script read it with the role of the delegate."
    )


def serialize_configurations(
    instances: Iterable[DelegateInstance], now: datetime
) -> dict[int, dict[str, Any]]:
    """Return the configurations of instances in the agent protocol, by instance; delegates must be loaded.

    They have no values of secrets. An instance that could not get the values gets no script, and an event
    says why. A disabled delegate gets nothing until it is enabled.
    """
    scripts: dict[int, AgentScript] = {}
    documents = {}
    for instance in instances:
        configuration = instance.delegate.configuration
        if configuration is None or not _is_enabled(instance):
            continue
        if configuration.pk not in scripts:
            scripts[configuration.pk] = build_agent_script(configuration)
        script = scripts[configuration.pk]
        if refusal := _describe_refusal(instance, configuration, script):
            _record_refusal(instance, configuration, refusal, now)
            script = AgentScript("")
        documents[instance.pk] = {
            "id": configuration.pk,
            "revision": build_revision(configuration.pk, configuration.updated_at),
            "name": configuration.name,
            "script": script.text,
            "secrets_revision": script.revision,
            "timeout_seconds": configuration.timeout_seconds,
        }
    return documents


def _is_enabled(instance: DelegateInstance) -> bool:
    return instance.delegate.admission == Delegate.Admission.ENABLED


def _describe_refusal(
    instance: DelegateInstance, configuration: DelegateConfiguration, script: AgentScript
) -> str:
    """Return why an instance may not get the values of a script; empty if it may."""
    if script.problem or not script.secrets:
        return script.problem
    if configuration.is_primary or configuration.scope.path not in instance.delegate.scope.ancestor_paths():
        return f"it uses secrets that are not shared with {instance.delegate.scope}."
    if not instance.has_features([SECRETS_FEATURE]):
        release = instance.version or "of the agent"
        return f"it uses secrets, which the release {release} cannot hide. Upgrade the delegate."
    return ""


def _record_refusal(
    instance: DelegateInstance, configuration: DelegateConfiguration, reason: str, now: datetime
) -> None:
    text = f"{get_instance_label(instance)} did not get the script of {configuration.name}: {reason}"
    record_event(instance, DelegateEvent.Kind.CONFIGURATION, text, at=now)


def send_secrets_request(request: AgentRequest) -> AgentReply:
    """POST /agent/v1/configuration/secrets: an agent takes the values of the script that it is about to run.

    Only this answer has values, never a socket. Raises `Conflict` if the agent may not have them, or not any
    more, and `ServiceUnavailable`, after which it asks again, while its delegate is disabled.
    """
    instance, fields = get_session_instance(request.bearer), request.fields()
    if not _is_enabled(instance):
        raise ServiceUnavailable("The delegate is disabled.")
    configuration = _require_own_configuration(instance, fields.body.get("configuration_id"))
    script = build_agent_script(configuration)
    refusal = _describe_refusal(instance, configuration, script)
    try:
        values = {} if refusal else script.read_values()
    except SecretUnreadable as unreadable:
        refusal = str(unreadable)
    if refusal:
        _record_refusal(instance, configuration, refusal, get_database_time())
        raise Conflict(refusal)
    return AgentReply({"secrets_revision": script.revision, "environment": values})


def _require_own_configuration(instance: DelegateInstance, configuration_id: Any) -> DelegateConfiguration:
    configuration = instance.delegate.configuration
    if configuration is None or configuration_id != configuration.pk:
        raise build_field_error("configuration_id", "is not the configuration of this delegate")
    return configuration


def record_configuration_run_request(request: AgentRequest) -> AgentReply:
    """POST /agent/v1/configuration: an agent ran the script of its configuration."""
    instance, fields = get_session_instance(request.bearer), request.fields()
    configuration = _require_own_configuration(instance, fields.body.get("configuration_id"))
    began = fields.get_timestamp("started_at")
    now = get_database_time()
    output = fields.body.get("output") or ""
    if not isinstance(output, str):
        raise build_field_error("output", "must be a text")
    # The agent hides the values that it had; hidden before the cut, which could split one.
    output = build_agent_script(configuration).build_mask().mask_text(replace_unstorable(output))
    run = ConfigurationRun.objects.create(
        configuration=configuration,
        instance=instance,
        started_at=now if began is None else datetime.fromtimestamp(began, UTC),
        duration_ms=fields.get_integer("duration_ms", 0, 2**31 - 1, default=0),
        exit_code=fields.get_integer("exit_code", -(2**31), 2**31 - 1),
        # The last output has the reason of the failure.
        output=output[-START_SCRIPT_OUTPUT_CHARACTERS:],
    )
    ended = "ran" if run.exit_code == 0 else f"failed with exit code {run.exit_code}"
    text = f"The script of {configuration.name} {ended} on {get_instance_label(instance)}."
    record_event(instance, DelegateEvent.Kind.CONFIGURATION, text, at=now)
    publish_delegates_changed(instance.delegate_id)
    return AgentReply({})
