"""Operations on connectors: create, update, delete, accept a new host key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from connectors.host_keys import get_known_server
from connectors.models import Connector, Secret
from connectors.operations.identifiers import (
    build_identifier_conflict,
    build_in_use_conflict,
    require_valid_identifier,
    validate_name,
)
from connectors.operations.references import require_login_without_loop
from connectors.required_access import RequiredPermission, require_access
from connectors.specs.sites import (
    find_connector_spec_problems,
    get_spec_type,
    has_same_login,
    parse_connector_spec,
)
from connectors.usages import describe_connector_records, find_usages
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import require
from web.http.problems import BadInput, Conflict, ResourceInUse
from web.managed_resources import require_unmanaged


def create_connector(
    *,
    actor: User,
    scope: Scope,
    identifier: str,
    name: str,
    spec: Mapping[str, Any],
    secret: Secret | None = None,
    session_token: Secret | None = None,
    kind: str = Connector.Kind.AWS,
) -> Connector:
    """Add a connector. Raises `BadInput`, or `Conflict` if the identifier is taken."""
    require(actor, "core_connector_edit", scope)
    require_valid_identifier(identifier)
    connector = Connector(
        scope=scope, identifier=identifier, name=validate_name(name), kind=_validate_kind(kind)
    )
    named = _ConnectorSecrets(secret, session_token)
    _apply_spec(actor, connector, spec, named, named)
    try:
        with transaction.atomic():
            connector.save()
            record_audit_entry(
                actor=actor, action="connector.create", thing=connector, after=_build_audit_values(connector)
            )
    except IntegrityError as exc:
        raise build_identifier_conflict("connector", identifier) from exc
    return connector


def update_connector(
    *,
    actor: User,
    connector: Connector,
    name: str | None = None,
    spec: Mapping[str, Any] | None = None,
    secret: Secret | Literal[False] | None = None,
    session_token: Secret | Literal[False] | None = None,
) -> Connector:
    """Update a connector; `spec` and secrets replace the current ones (None keeps one, False removes it).

    The result of the last test is cleared. Raises `BadInput` without a secret that the spec needs.
    """
    require(actor, "core_connector_edit", connector)
    require_unmanaged(connector)
    before = _build_audit_values(connector)
    if name is not None:
        connector.name = validate_name(name)
    if spec is not None or secret is not None or session_token is not None:
        new_spec = connector.spec if spec is None else spec
        # Before the comparison with the current spec, which needs the right types.
        _require_no_problems(get_spec_type(connector.kind).find_shape_problems(new_spec))
        current = _get_reusable_secrets(connector, new_spec)
        chosen = _ConnectorSecrets(
            current.secret if secret is None else secret or None,
            current.session_token if session_token is None else session_token or None,
        )
        named = _ConnectorSecrets(secret or None, session_token or None)
        _apply_spec(actor, connector, new_spec, chosen, named)
        connector.clear_test_result()
    with transaction.atomic():
        tested = ["last_tested_at", "last_test_ok", "last_test_message", "last_test_report"]
        connector.save(update_fields=["name", "spec", "secret", "session_token", *tested, "updated_at"])
        record_audit_entry(
            actor=actor,
            action="connector.update",
            thing=connector,
            before=before,
            after=_build_audit_values(connector),
        )
    return connector


def delete_connector(*, actor: User, connector: Connector) -> None:
    """Remove a connector. Raises `Conflict` if something uses it, or if executions refer to it."""
    require(actor, "core_connector_delete", connector)
    require_unmanaged(connector)
    if usages := find_usages(connector, actor):
        raise ResourceInUse(f"{connector} is still in use by {usages}. Remove these references first.")
    if records := describe_connector_records(connector):
        raise Conflict(records)
    try:
        with transaction.atomic():
            record_audit_entry(
                actor=actor, action="connector.delete", thing=connector, before=_build_audit_values(connector)
            )
            connector.delete()
    except ProtectedError as exc:
        raise build_in_use_conflict(connector, exc) from exc


@dataclass(frozen=True)
class _ConnectorSecrets:
    """Secrets of a connector: its login, and the session token of a temporary access key."""

    secret: Secret | None = None
    session_token: Secret | None = None


def _apply_spec(
    actor: User,
    connector: Connector,
    spec: Mapping[str, Any],
    secrets: _ConnectorSecrets,
    named: _ConnectorSecrets,
) -> None:
    """Set spec and secrets; `named` are those of the request, which are refused where none is needed."""
    has_secret = secrets.secret is not None
    _require_no_problems(find_connector_spec_problems(connector.kind, spec, has_secret=has_secret))
    read = parse_connector_spec(connector.kind, spec)
    if not read.needs_secret:
        _require_no_problems(
            [
                {"path": path, "message": "This authentication needs no secret: leave this out."}
                for path in ("secret", "session_token")
                if getattr(named, path) is not None
            ]
        )
    chosen = secrets.secret if read.needs_secret else None
    token = secrets.session_token if read.needs_secret else None
    if token is not None and connector.kind != Connector.Kind.AWS:
        message = "A session token belongs to an access key of AWS."
        raise BadInput(message, errors=[{"path": "session_token", "message": message}])
    spec_kept = read.to_json()
    if chosen is not None and (chosen.pk, spec_kept) != (connector.secret_id, connector.spec):
        _require_secret_access(actor, connector, chosen)
    if token is not None and (token.pk, spec_kept) != (connector.session_token_id, connector.spec):
        _require_secret_access(actor, connector, token, path="session_token")
    connector.spec = spec_kept
    connector.secret, connector.session_token = chosen, token


def _require_no_problems(problems: list[dict[str, str]]) -> None:
    if problems:
        raise BadInput("The settings of the connector are not valid.", errors=problems)


def _require_secret_access(
    actor: User, connector: Connector, secret: Secret, *, path: str = "secret"
) -> None:
    if secret.scope.path not in connector.scope.ancestor_paths():
        message = (
            f"The secret {secret} is in {secret.scope}. Use a secret in {connector.scope} or a scope above."
        )
        raise BadInput(message, errors=[{"path": path, "message": message}])
    require_login_without_loop(connector, secret)
    require_access(
        actor,
        [RequiredPermission("core_secret_access", secret, f"the secret {secret.identifier}", path=path)],
    )


def _get_reusable_secrets(connector: Connector, spec: Mapping[str, Any]) -> _ConnectorSecrets:
    """Return the current secrets, unless the new spec uses them for another address."""
    if not has_same_login(connector.kind, spec, connector.spec):
        return _ConnectorSecrets()
    return _ConnectorSecrets(connector.secret, connector.session_token)


def _validate_kind(kind: str) -> str:
    if kind not in Connector.Kind.values:
        message = f"Unknown connector type. Use one of {', '.join(Connector.Kind.values)}."
        raise BadInput(message, errors=[{"path": "kind", "message": message}])
    return kind


def _build_audit_values(connector: Connector) -> dict[str, Any]:
    return {
        "identifier": connector.identifier,
        "name": connector.name,
        "kind": connector.kind,
        "spec": dict(connector.spec),
        "secret": str(connector.secret) if connector.secret else None,
        "session_token": str(connector.session_token) if connector.session_token else None,
    }


@transaction.atomic
def accept_host_key(*, actor: User, connector: Connector, fingerprint: str) -> Connector:
    """Accept the offered host key in place of the known one.

    `fingerprint` is the one that the user compared. Raises `Conflict` if the server offered another key, or
    none.
    """
    require(actor, "core_connector_edit", connector)
    locked = Connector.objects.select_for_update(of=("self",)).select_related("scope").get(pk=connector.pk)
    server = get_known_server(locked)
    if server.offered is None:
        raise Conflict("The server offers no new key. Test the connector, then try again.")
    if server.offered.fingerprint != fingerprint.strip():
        raise Conflict(
            f"The offered key is {server.offered.fingerprint}. Compare it with the key of the server, then "
            f"accept it."
        )
    if server.configured:
        locked.spec = {**locked.spec, "host_key": str(server.offered)}
    locked.host_key = {
        "place": locked.host_key["place"],
        "key": str(server.offered),
        "seen_at": locked.host_key["offered_at"],
    }
    locked.clear_test_result()
    locked.save()
    record_audit_entry(
        actor=actor,
        action="connector.accept_host_key",
        thing=locked,
        before={"fingerprints": [key.fingerprint for key in server.keys]},
        after={"fingerprints": [server.offered.fingerprint]},
    )
    return locked
