"""Validation of references to secret managers: their place, access to it, and loops."""

from connectors.models import Connector, Secret
from connectors.required_access import get_connector_requirements, require_access
from connectors.secret_managers.base import SecretReference, find_reference_problems
from connectors.secret_values import MAX_CHAIN
from rbac.models import Scope, User
from web.http.problems import BadInput


def require_usable_reference(
    actor: User, scope: Scope, reference: SecretReference, secret: Secret | None
) -> None:
    """Check a reference of a secret in a scope. Raises `BadInput`, or `MissingAccess` to the connector.

    `secret` is the existing secret that gets the reference.
    """
    if problems := find_reference_problems(reference):
        raise BadInput("The reference is not valid.", errors=problems)
    connector = reference.connector
    if connector.scope.path not in scope.ancestor_paths():
        raise _build_problem(
            "connector",
            f"The connector {connector} is in {connector.scope}. Use one in {scope} or a scope above.",
        )
    require_access(actor, get_connector_requirements(connector, path="connector"))
    logins = (connector.secret, connector.session_token)
    if any(_needs_itself(login, secret_id=secret.pk if secret else None) for login in logins):
        raise _build_problem(
            "connector",
            f"The login of the connector {connector} needs this secret, or too many other references. Store "
            "the login as a value.",
        )


def require_login_without_loop(connector: Connector, secret: Secret) -> None:
    """Check that the secret of a connector can be read without this connector. Raises `BadInput`."""
    if _needs_itself(secret, connector_id=connector.pk):
        raise _build_problem(
            "secret",
            f"The secret {secret} is read through this connector, or through too many others. Use a secret "
            "with a stored value.",
        )


def _needs_itself(
    secret: Secret | None,
    *,
    secret_id: int | None = None,
    connector_id: int | None = None,
    levels: int = MAX_CHAIN,
) -> bool:
    """Return whether the logins that lead to a secret include one of these rows, or are too many."""
    if secret is None or not (secret.is_reference or secret.pk == secret_id):
        return False
    managers = Connector.objects.select_related("secret", "session_token")
    manager = managers.filter(referenced_secrets=secret.pk).first()
    if secret.pk == secret_id or manager is None or manager.pk == connector_id or not levels:
        return True
    return any(
        _needs_itself(login, secret_id=secret_id, connector_id=connector_id, levels=levels - 1)
        for login in (manager.secret, manager.session_token)
    )


def _build_problem(path: str, message: str) -> BadInput:
    return BadInput(message, errors=[{"path": path, "message": message}])
