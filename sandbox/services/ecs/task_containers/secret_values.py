"""Secret values of task definitions, read from the account's Secrets Manager."""

from collections.abc import Mapping
from json import JSONDecodeError, loads
from typing import Any

from moto.secretsmanager.exceptions import SecretsManagerClientError
from moto.secretsmanager.models import secretsmanager_backends

from sandbox.snapshot_rules import SNAPSHOT_RULES

ARN_PARTS = 7
NOT_FOUND = "ResourceNotFoundException: Secrets Manager can't find the specified secret."


class SecretUnavailable(Exception):
    """Error raised when a container's secret is unreadable; the text is ECS's reason."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            "ResourceInitializationError: unable to pull secrets or registry auth: execution resource"
            " retrieval failed: unable to retrieve secret from asm: service call has been retried 1 time(s):"
            f" failed to fetch secret {where} from secrets manager: {why}"
        )


def get_secret_values(account_id: str, region: str, container: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a container's secrets by variable. Raises `SecretUnavailable`.

    `valueFrom` is an ARN, with or without the six characters that Secrets Manager appends to a name, and
    optionally `:json-key:version-stage:version-id` (ECS developer guide, "Pass Secrets Manager secrets").
    """
    return {
        secret["name"]: _get_value(account_id, region, secret["valueFrom"])
        for secret in container.get("secrets") or []
    }


def describe_missing_secret(account_id: str, region: str, containers: list[dict[str, Any]]) -> str | None:
    """Return the reason if a missing secret prevents a task's start, or None."""
    if SNAPSHOT_RULES.is_active:
        return None
    try:
        for container in containers:
            get_secret_values(account_id, region, container)
    except SecretUnavailable as exc:
        return str(exc)
    return None


def _get_value(account_id: str, region: str, reference: str) -> str:
    parts = reference.split(":")
    is_arn = reference.startswith("arn:") and len(parts) >= ARN_PARTS
    if not is_arn or parts[2] != "secretsmanager":
        raise SecretUnavailable(
            reference, "the sandbox has values of Secrets Manager only, named by their ARN."
        )
    arn = ":".join(parts[:ARN_PARTS])
    key, stage, version = [*parts[ARN_PARTS:], "", "", ""][:3]
    text = _read_secret(parts[4] or account_id, parts[3] or region, arn, stage=stage, version=version)
    return _get_json_key(arn, text, key) if key else text


def _read_secret(account_id: str, region: str, arn: str, *, stage: str, version: str) -> str:
    backend = secretsmanager_backends[account_id][region]
    name = arn.rpartition(":")[2]
    # The full text first: a name may itself end in a hyphen and six characters.
    for identifier in (arn, name):
        try:
            secret = backend.get_secret_value(identifier, version or None, stage or None)
        except SecretsManagerClientError:
            continue
        return str(secret.get("SecretString") or secret.get("SecretBinary") or "")
    raise SecretUnavailable(arn, NOT_FOUND)


def _get_json_key(arn: str, text: str, key: str) -> str:
    try:
        json_value = loads(text)[key]
    except (JSONDecodeError, KeyError, TypeError) as exc:
        raise SecretUnavailable(arn, f"retrieved secret did not contain json key {key}") from exc
    return str(json_value)
