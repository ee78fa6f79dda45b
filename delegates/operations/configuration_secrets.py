"""Use of secrets in scripts of configurations: its checks, and new runs after a change of a secret."""

from connectors.models import Secret
from connectors.queries import describe_missing_secret
from connectors.required_access import require_access
from connectors.secret_expressions import parse_secret_reference, replace_by_variables
from delegates.models import Delegate, DelegateConfiguration
from delegates.protocol.configurations import describe_remote_secret
from delegates.protocol.notices import notify_configuration
from delegates.queries.configuration_secrets import (
    list_configurations_by_secret,
    list_script_secrets,
    list_secret_needs,
)
from guards.limits import SCRIPT_SECRETS
from rbac.models import Scope, User
from web.clock import get_database_time
from web.http.problems import BadInput


def require_usable_secrets(
    actor: User, scope: Scope, script: str, *, path: str, is_primary: bool = False
) -> None:
    """Check the secrets of a script in a scope.

    Raises `BadInput` for one that no delegate could get, and `MissingAccess`.
    """
    remaining, variables = replace_by_variables(script, parse_secret_reference)
    before, wrong, _ = remaining.partition("<+secrets.")
    if wrong:
        line = before.count("\n") + 1
        message = f'Line {line}: write a secret as <+secrets.getValue("identifier")>, with double quotes.'
        raise _build_refusal(path, message)
    if not variables:
        return
    if is_primary:
        message = (
            "Every new delegate gets the primary configuration, so its script cannot use secrets. Create a "
            "configuration and assign it to the delegates that may have them."
        )
        raise _build_refusal(path, message)
    if len(variables) > SCRIPT_SECRETS:
        raise _build_refusal(path, f"A script may use {SCRIPT_SECRETS} at most.")
    require_access(actor, list_secret_needs(scope, script, path=path))
    for reference, secret in list_script_secrets(scope, script).items():
        if secret is None:
            raise _build_refusal(path, describe_missing_secret(scope, reference))
        if secret.is_reference:
            raise _build_refusal(path, describe_remote_secret(reference))


def require_secret_access(actor: User, configuration: DelegateConfiguration, *, path: str) -> None:
    """Check that a user may give the secrets of a configuration to a delegate. Raises `MissingAccess`."""
    require_access(actor, list_secret_needs(configuration.scope, configuration.script, path=path))


def run_scripts_again(secret: Secret) -> None:
    """Let delegates run the scripts that use a secret again, with its new value."""
    ids = [configuration.pk for configuration in list_configurations_by_secret(secret)]
    if ids:
        DelegateConfiguration.objects.filter(pk__in=ids).update(updated_at=get_database_time())
        notify_configuration(Delegate.objects.filter(configuration__in=ids).values_list("pk", flat=True))


def _build_refusal(path: str, message: str) -> BadInput:
    return BadInput(message, errors=[{"path": path, "message": message}])
