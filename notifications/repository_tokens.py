"""Tokens of rules for Git services: entered ones, those of secrets, and those of Git connectors."""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from connectors.models import Connector, Secret
from connectors.queries import SecretNotFound, find_connector, find_secret
from connectors.required_access import (
    RequiredPermission,
    find_missing_permissions,
    get_connector_requirements,
)
from connectors.secret_managers.base import SecretUnreadable
from connectors.secret_values import read_secret_value
from connectors.specs.sites import PASSWORD, parse_site_spec
from notifications.channels.commit_statuses import CommitStatusChannel
from notifications.channels.registry import CHANNELS
from notifications.models import NotificationRule
from rbac.models import Scope, User

SECRET, CONNECTOR = "token_secret", "connector"
_ACCESS: Final = "core_secret_access"


class TokenUnavailable(Exception):
    """Error raised when the token of a rule cannot be read; the text is the reason."""


def has_reference(options: Mapping[str, str]) -> bool:
    """Return whether the options of a rule name where its token is."""
    return bool(options.get(SECRET) or options.get(CONNECTOR))


def list_token_problems(
    rule: NotificationRule, options: Mapping[str, str], *, url: str, token: str, actor: User
) -> Iterator[dict[str, str]]:
    """Yield why a rule with these options, URL and entered or kept token gets no token.

    Who saves it must have access to the secret each time: a rule can send it to another address.
    """
    channel = CHANNELS.get(rule.kind)
    if not isinstance(channel, CommitStatusChannel):
        return
    secret_reference, connector_reference = options.get(SECRET), options.get(CONNECTOR)
    if secret_reference and connector_reference:
        yield _build_problem(CONNECTOR, "Name a secret or a connector, not both.")
    elif connector_reference:
        yield from _list_connector_problems(channel, rule.scope, connector_reference, url, actor)
    elif secret_reference:
        yield from _list_secret_problems(rule.scope, secret_reference, actor)
    elif not token:
        yield {"path": "secret", "message": "Enter a token, or name a secret or a Git connector."}


def read_token(rule: NotificationRule) -> str:
    """Return the token of a rule. Raises `TokenUnavailable`, and `DecryptionFailed` for an entered one."""
    channel = CHANNELS.get(rule.kind)
    if not isinstance(channel, CommitStatusChannel) or not has_reference(rule.options):
        return rule.secret
    try:
        return read_secret_value(
            _find_token_secret(channel, rule), reader=f"notification rule {rule.identifier}"
        )
    except (SecretNotFound, SecretUnreadable) as problem:
        raise TokenUnavailable(str(problem)) from problem


def _find_token_secret(channel: CommitStatusChannel, rule: NotificationRule) -> Secret:
    if reference := rule.options.get(SECRET):
        return find_secret(rule.scope, reference)
    reference = rule.options[CONNECTOR]
    connector = find_connector(rule.scope, reference, Connector.Kind.GIT)
    if connector is None:
        raise TokenUnavailable(f"There is no Git connector {reference} for {rule.scope}.")
    # The connector may have been changed since the rule was saved.
    if problem := _describe_connector_problem(channel, connector, rule.url):
        raise TokenUnavailable(f"The connector {connector} {problem}.")
    if connector.secret is None:
        raise TokenUnavailable(f"The connector {connector} has no secret.")
    return connector.secret


def _list_connector_problems(
    channel: CommitStatusChannel, scope: Scope, reference: str, url: str, actor: User
) -> Iterator[dict[str, str]]:
    connector = find_connector(scope, reference, Connector.Kind.GIT)
    if connector is None:
        yield _build_problem(CONNECTOR, f"There is no Git connector {reference} for {scope}.")
        return
    for missing in find_missing_permissions(actor, get_connector_requirements(connector)):
        yield _build_problem(CONNECTOR, missing.message)
    if problem := _describe_connector_problem(channel, connector, url):
        yield _build_problem(CONNECTOR, f"The connector {connector} {problem}.")


def _describe_connector_problem(channel: CommitStatusChannel, connector: Connector, url: str) -> str:
    """Return why the password of a connector is no token for an address; it never goes to another service."""
    spec = parse_site_spec(connector.spec)
    if spec.authentication != PASSWORD:
        return "has no token as its password"
    if spec.is_remote:
        return "connects through a delegate, but Slipway itself sends notifications"
    api, site = urlsplit(url or channel.default_url).hostname, urlsplit(spec.url).hostname
    return "" if site and api in (site, f"api.{site}") else f"is for {site}, not for {api}"


def _list_secret_problems(scope: Scope, reference: str, actor: User) -> Iterator[dict[str, str]]:
    try:
        secret = find_secret(scope, reference)
    except SecretNotFound as problem:
        yield _build_problem(SECRET, str(problem))
        return
    need = RequiredPermission(_ACCESS, secret, f"the secret {reference}", f"the secret {reference}")
    for missing in find_missing_permissions(actor, [need]):
        yield _build_problem(SECRET, missing.message)


def _build_problem(option: str, message: str) -> dict[str, str]:
    return {"path": f"options.{option}", "message": message}
