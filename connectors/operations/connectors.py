"""Creating, changing and deleting connectors; testing one needs a door and is in `delegates.doors`."""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from connectors.downstream import Need, refuse_lacking
from connectors.kinds import any_problems, read_any, same_entrance
from connectors.models import Connector, Secret
from connectors.operations.naming import check_identifier, clean_name, still_used, taken
from connectors.uses import StillUsed, uses_of
from rbac.audit import record
from rbac.models import Scope, User
from rbac.policy import require
from web.problems import BadInput


def create_connector(
    *,
    actor: User,
    scope: Scope,
    identifier: str,
    name: str,
    spec: Mapping[str, Any],
    secret: Secret | None = None,
    kind: str = Connector.Kind.AWS,
) -> Connector:
    """Add a connector. Raises `BadInput`, or `Conflict` if the identifier is taken."""
    require(actor, "core_connector_edit", scope)
    check_identifier(identifier)
    connector = Connector(scope=scope, identifier=identifier, name=clean_name(name), kind=_known(kind))
    _fill_in(actor, connector, spec, secret)
    try:
        with transaction.atomic():
            connector.save()
            record(actor=actor, action="connector.create", thing=connector, after=_shown(connector))
    except IntegrityError as exc:
        raise taken("connector", identifier) from exc
    return connector


def update_connector(
    *,
    actor: User,
    connector: Connector,
    name: str | None = None,
    spec: Mapping[str, Any] | None = None,
    secret: Secret | None = None,
) -> Connector:
    """Change a connector; a spec is given whole, and with it the secret (None keeps the one it has).

    The last test no longer says anything about the changed connector, so it is forgotten.
    """
    require(actor, "core_connector_edit", connector)
    before = _shown(connector)
    if name is not None:
        connector.name = clean_name(name)
    if spec is not None or secret is not None:
        wanted = connector.spec if spec is None else spec
        _fill_in(actor, connector, wanted, secret or _kept_secret(connector, wanted))
        connector.forget_test()
    with transaction.atomic():
        tested = ["last_tested_at", "last_test_ok", "last_test_message", "last_test_report"]
        connector.save(update_fields=["name", "spec", "secret", *tested, "updated_at"])
        record(
            actor=actor, action="connector.update", thing=connector, before=before, after=_shown(connector)
        )
    return connector


def delete_connector(*, actor: User, connector: Connector) -> None:
    """Remove a connector. Raises `Conflict` while an infrastructure or a manifest uses it."""
    require(actor, "core_connector_delete", connector)
    if found := uses_of(connector, actor):
        raise StillUsed(f"{connector} is still used by {found}. Remove it there first.")
    try:
        with transaction.atomic():
            record(actor=actor, action="connector.delete", thing=connector, before=_shown(connector))
            connector.delete()
    except ProtectedError as exc:
        raise still_used(connector, exc) from exc


def _fill_in(actor: User, connector: Connector, spec: Mapping[str, Any], secret: Secret | None) -> None:
    if problems := any_problems(connector.kind, spec, has_secret=secret is not None):
        raise BadInput("The connector's settings do not fit together.", errors=problems)
    read = read_any(connector.kind, spec)
    chosen = secret if read.needs_secret else None
    spec_kept = read.to_json()
    if chosen is not None and (chosen.pk, spec_kept) != (connector.secret_id, connector.spec):
        _may_use(actor, connector, chosen)
    connector.spec = spec_kept
    connector.secret = chosen


def _may_use(actor: User, connector: Connector, secret: Secret) -> None:
    if secret.scope.path not in connector.scope.ancestor_paths():
        message = f"The secret {secret} lies in {secret.scope}, which is not above {connector.scope}."
        raise BadInput(message, errors=[{"path": "secret", "message": message}])
    refuse_lacking(
        actor, [Need("core_secret_access", secret, f"the secret {secret.identifier}", path="secret")]
    )


def _kept_secret(connector: Connector, spec: Mapping[str, Any]) -> Secret | None:
    """The secret that it has, unless the spec now names what another secret opens."""
    return connector.secret if same_entrance(connector.kind, spec, connector.spec) else None


def _known(kind: str) -> str:
    if kind not in Connector.Kind.values:
        message = f"Unknown kind of connector; known are {', '.join(Connector.Kind.values)}."
        raise BadInput(message, errors=[{"path": "kind", "message": message}])
    return kind


def _shown(connector: Connector) -> dict[str, Any]:
    return {
        "identifier": connector.identifier,
        "name": connector.name,
        "kind": connector.kind,
        "spec": dict(connector.spec),
        "secret": str(connector.secret) if connector.secret else None,
    }
