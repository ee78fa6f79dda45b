"""Secrets in Vault: logins, leases, refusals with their fix, and where requests may lead."""

import time
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from connectors.models import Connector, Secret
from connectors.operations import create_connector, create_secret
from connectors.secret_managers import vault_client
from connectors.secret_managers.base import SecretReference, SecretUnreadable
from connectors.secret_values import fetch_secret_value, read_secret_value
from connectors.specs.vault import find_vault_spec_problems
from delegates.access.connector_tests import run_connector_test
from guards.address_policy import AddressPolicy
from rbac.models import Scope, User
from tests.connectors.test_git_connectors import Browse
from tests.fixtures.vault import ROLE_ID, SECRET_ID, TOKEN, VaultServer
from tests.secret_watch.marker import planted
from web.http.problems import BadInput

VALUE = planted("from-the-vault")
LOGIN, READ = "/v1/auth/approle/login", "/v1/secret/data/prod/db"


def connect(admin: User, scope: Scope, url: str, login: str = TOKEN, **spec: Any) -> Connector:
    secret = create_secret(actor=admin, scope=scope, identifier="login", name="Login", value=login)
    return create_connector(
        actor=admin,
        scope=scope,
        identifier="vault",
        name="Vault",
        kind="Vault",
        spec={"url": url, "authentication": "Token", **spec},
        secret=secret,
    )


def connect_app(admin: User, scope: Scope, vault: VaultServer) -> Connector:
    return connect(admin, scope, vault.url, SECRET_ID, authentication="AppRole", role_id=ROLE_ID)


def make(
    admin: User, connector: Connector, path: str = "prod/db", key: str = "password", **more: str
) -> Secret:
    return create_secret(
        actor=admin,
        scope=connector.scope,
        identifier="db",
        name="Database",
        reference=SecretReference("Vault", connector, path, key, **more),
    )


def refusal_of(secret: Secret) -> str:
    with pytest.raises(SecretUnreadable) as refusal:
        fetch_secret_value(secret, reader="test")
    assert VALUE not in str(refusal.value)
    return str(refusal.value)


def test_a_token_reads_the_newest_version_or_the_named_one(
    project: Scope, admin: User, vault: VaultServer
) -> None:
    vault.secrets["prod/db"].append({"password": planted("second")})
    connector = connect(admin, project, vault.url, namespace="team/a")
    secret = make(admin, connector)
    assert read_secret_value(secret, reader="test") == planted("second")
    assert vault.headers[-1]["X-Vault-Namespace"] == "team/a"
    secret.reference_version = "1"
    secret.save()
    assert read_secret_value(secret, reader="test") == VALUE


def test_a_path_may_have_spaces_and_letters_of_any_language(
    project: Scope, admin: User, vault: VaultServer
) -> None:
    vault.secrets["prod/my däta"] = [{"pass word": VALUE}]
    secret = make(admin, connect(admin, project, vault.url), "prod/my däta", "pass word")
    assert read_secret_value(secret, reader="test") == VALUE


def test_a_login_by_app_role_is_kept_for_its_lease(
    project: Scope, admin: User, vault: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = make(admin, connect_app(admin, project, vault))
    for _ in range(3):
        assert fetch_secret_value(secret, reader="test") == VALUE
    assert (vault.count(LOGIN), vault.count(READ)) == (1, 3)
    now = time.monotonic()
    monkeypatch.setattr(vault_client.time, "monotonic", lambda: now + vault.lease_seconds)
    assert fetch_secret_value(secret, reader="test") == VALUE
    assert vault.count(LOGIN) == 2


def test_a_revoked_login_is_made_again_once(project: Scope, admin: User, vault: VaultServer) -> None:
    secret = make(admin, connect_app(admin, project, vault))
    fetch_secret_value(secret, reader="test")
    vault.tokens.clear()
    assert fetch_secret_value(secret, reader="test") == VALUE
    assert vault.count(LOGIN) == 2
    vault.denied.add("prod/db")
    assert "permission denied" in refusal_of(secret)
    assert vault.count(LOGIN) == 3


def test_aws_signs_with_the_credentials_of_slipway_where_that_is_allowed(
    project: Scope, admin: User, vault: VaultServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"url": vault.url, "authentication": "Aws", "role": "slipway", "server_id": "vault.example.com"}
    options = {"actor": admin, "scope": project, "identifier": "vault", "name": "Vault", "kind": "Vault"}
    settings.ALLOW_MANAGER_CREDENTIALS = False
    with pytest.raises(BadInput):
        create_connector(**options, spec=spec)
    settings.ALLOW_MANAGER_CREDENTIALS = True
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASLIPWAY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", planted("key-of-slipway"))
    secret = make(admin, create_connector(**options, spec=spec))
    assert fetch_secret_value(secret, reader="test") == VALUE
    settings.ALLOW_MANAGER_CREDENTIALS = False
    vault_client.clear_logins()
    assert "SLIPWAY_ALLOW_MANAGER_CREDENTIALS" in refusal_of(secret)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"denied": {"prod/db"}}, ('path "secret/data/prod/db" { capabilities = ["read"] }', "403")),
        ({"tokens": set()}, ("permission denied", "token has expired")),
        ({"is_sealed": True}, ("sealed", "Unseal Vault")),
        ({"secrets": {}}, ("404", "below the mount secret")),
        ({"secrets": {"prod/db": [{"user": "app"}]}}, ("no such key", "Correct the key")),
        ({"secrets": {"prod/db": [{"password": None}]}}, ("no such key",)),
        ({"secrets": {"prod/db": [{"password": {"a": 1}}]}}, ("holds no text",)),
        ({"secrets": {"prod/db": [{"password": ""}]}}, ("empty", "Change the value")),
        ({"secrets": {"prod/db": [{"password": "x" * 70_000}]}}, ("cannot be used",)),
        ({"secrets": {"prod/db": [{"password": "null \x00 byte"}]}}, ("cannot be used",)),
        ({"secrets": {"prod/db": ["text"]}}, ("not that of such an engine",)),
        ({"status": 307}, ("not that of such an engine",)),
        ({"status": 429}, ("429", "rate limit")),
        ({"status": 500}, ("had an error",)),
    ],
)
def test_a_refusal_names_manager_path_reason_and_fix(
    project: Scope, admin: User, vault: VaultServer, change: dict[str, Any], parts: tuple[str, ...]
) -> None:
    secret = make(admin, connect(admin, project, vault.url))
    for name, value in change.items():
        setattr(vault, name, value)
    text = refusal_of(secret)
    assert all(part in text for part in ("Vault (connector vault)", "prod/db, key password", *parts)), text


def test_a_refused_login_says_so(project: Scope, admin: User, vault: VaultServer) -> None:
    connector = connect(
        admin, project, vault.url, planted("wrong-id"), authentication="AppRole", role_id=ROLE_ID
    )
    text = refusal_of(make(admin, connector))
    assert "refused the login by AppRole" in text
    assert planted("wrong-id") not in text


def test_a_vault_that_is_away_or_in_a_forbidden_network_is_named(
    project: Scope, admin: User, vault: VaultServer, settings: Settings
) -> None:
    secret = make(admin, connect(admin, project, vault.url))
    settings.OUTGOING_REACH = AddressPolicy(advice="name it")
    assert "permitted networks" in refusal_of(secret)
    assert vault.requests == []


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({}, "url"),
        ({"url": "http://169.254.169.254/"}, "url"),
        ({"url": "ftp://vault.example.com"}, "url"),
        ({"url": "https://vault.example.com/?x=1"}, "url"),
        ({"url": "https://vault.example.com", "delegate_selectors": ["prod"]}, "delegate_selectors"),
        ({"url": "https://vault.example.com", "mount": "a/../b"}, "mount"),
        ({"url": "https://vault.example.com", "namespace": "a?b"}, "namespace"),
        ({"url": "https://vault.example.com", "authentication": "Magic"}, "authentication"),
        ({"url": "https://vault.example.com", "authentication": "AppRole"}, "role_id"),
        ({"url": "https://vault.example.com"}, "secret"),
        ({"url": "https://vault.example.com", "role": "x"}, "role"),
        ({"url": "https://vault.example.com", "color": "red"}, "color"),
    ],
)
def test_a_spec_that_does_not_fit_is_named(spec: dict[str, Any], path: str) -> None:
    assert path in {problem["path"] for problem in find_vault_spec_problems(spec, has_secret=False)}


@pytest.mark.parametrize("path", ["../secret", "a//b", "/a", "a/", "a?b=c", "a#b", "a%2e%2e/b", "a\\b"])
def test_a_path_leads_nowhere_else(project: Scope, admin: User, vault: VaultServer, path: str) -> None:
    connector = connect(admin, project, vault.url)
    with pytest.raises(BadInput):
        make(admin, connector, path)


def test_a_key_is_required(project: Scope, admin: User, vault: VaultServer) -> None:
    connector = connect(admin, project, vault.url)
    with pytest.raises(BadInput) as refusal:
        make(admin, connector, key="")
    assert [error["path"] for error in refusal.value.errors or []] == ["key"]


def test_the_test_of_a_connector_logs_in(project: Scope, admin: User, vault: VaultServer) -> None:
    connector = connect_app(admin, project, vault)
    tested = run_connector_test(actor=admin, connector=connector)
    assert tested.ok
    assert "as approle, with the policies default, slipway" in tested.message
    vault.is_sealed = True
    tested = run_connector_test(actor=admin, connector=connector)
    assert (tested.ok, "Unseal Vault" in tested.message) == (False, True)


def test_the_form_makes_a_connector_and_changes_it(
    project: Scope, admin: User, vault: VaultServer, browse: Browse
) -> None:
    client: Client = browse(admin)
    assert "Role ID" in client.get("/connectors/new/?kind=Vault").content.decode()
    form = {
        "in_scope": project.path,
        "name": "Team vault",
        "url": vault.url,
        "mount": "secret",
        "authentication": "AppRole",
        "role_id": ROLE_ID,
        "secret_value": SECRET_ID,
    }
    assert client.post("/connectors/new/?kind=Vault", form).status_code == 302
    connector = Connector.objects.get()
    assert connector.spec["role_id"] == ROLE_ID
    assert SECRET_ID not in client.get(f"/connectors/{connector.pk}/edit/").content.decode()
    shown = client.get(f"/connectors/{connector.pk}/").content.decode()
    assert f"AppRole <code>{ROLE_ID}</code>" in shown
    assert "AppRole" in client.get("/connectors/").content.decode()
    stored = Connector.objects.get()
    change = {
        "name": "V",
        "url": vault.url,
        "mount": "secret",
        "authentication": "AppRole",
        "role_id": ROLE_ID,
    }
    change |= {
        "connect_through": "Delegate",
        "delegate_selectors": "prod, eu",
        "secret": str(stored.secret_id),
    }
    version = f"{stored.updated_at.timestamp():.6f}"
    assert client.post(f"/connectors/{stored.pk}/edit/", change | {"version": version}).status_code == 302
    assert Connector.objects.get().spec["delegate_selectors"] == ["prod", "eu"]
