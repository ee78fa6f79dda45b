"""Rotating keys: every encrypted column comes under the first key, whatever happens meanwhile."""

import ast
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from cryptography.fernet import Fernet
from django.apps import apps
from django.core.management import CommandError, call_command
from pytest_django import Settings

from connectors import key_rotation
from connectors.key_rotation import (
    UNBOUND_SUFFIX,
    EncryptedColumn,
    SecondFactorColumn,
    count_keys,
    get_first_key_name,
    list_encrypted_columns,
    rotate_column,
)
from connectors.models import Secret
from rbac.encrypted_fields import EncryptedTextField, EncryptedValue
from rbac.encryption import encrypt, get_key_name
from rbac.models import Scope, User
from tests.secret_watch.marker import planted
from web.models import FormDraft

ROOT = Path(__file__).parents[2]
PACKAGES = {config.name.partition(".")[0] for config in apps.get_app_configs()} - {"tests"}
FIELD = Secret._meta.get_field("value")
assert isinstance(FIELD, EncryptedTextField)
VALUES = EncryptedColumn(Secret, FIELD)


def new_key() -> str:
    return Fernet.generate_key().decode()


@pytest.fixture
def keys(settings: Settings) -> Callable[..., None]:
    def use(*keys: str) -> None:
        settings.FIELD_ENCRYPTION_KEYS = keys

    return use


@pytest.fixture
def secrets(project: Scope) -> list[Secret]:
    return [
        Secret.objects.create(scope=project, identifier=f"s{n}", name="S", value=planted(f"the value {n}"))
        for n in range(5)
    ]


def rotate_keys(*options: str) -> str:
    out = StringIO()
    call_command("rotate_keys", *options, stdout=out)
    return out.getvalue()


def test_after_a_rotation_the_old_key_is_not_needed(
    settings: Settings, keys: Callable[..., None], secrets: list[Secret]
) -> None:
    (old,) = settings.FIELD_ENCRYPTION_KEYS
    new = new_key()
    keys(new, old)
    assert "connectors_secret.value: 5 of 5 values re-encrypted" in rotate_keys()
    keys(new)
    assert [secret.value for secret in Secret.objects.order_by("pk")] == [
        planted(f"the value {n}") for n in range(5)
    ]
    assert "5 under" in rotate_keys("--check")


def test_a_check_names_what_still_needs_an_older_key(
    settings: Settings, keys: Callable[..., None], secrets: list[Secret]
) -> None:
    keys(new_key(), *settings.FIELD_ENCRYPTION_KEYS)
    with pytest.raises(CommandError, match="5 values use an older key or format"):
        rotate_keys("--check")
    keys(new_key())
    with pytest.raises(CommandError, match="FIELD_ENCRYPTION_KEY lacks their key"):
        rotate_keys("--check")


def test_a_rotation_that_was_ended_goes_on_with_what_is_left(
    settings: Settings, keys: Callable[..., None], secrets: list[Secret]
) -> None:
    class Ended(Exception):
        pass

    def end(_values: int) -> None:
        raise Ended

    (old,) = settings.FIELD_ENCRYPTION_KEYS
    new = new_key()
    keys(new, old)
    with pytest.raises(Ended):
        rotate_column(VALUES, size=2, report_progress=end)
    assert count_keys(VALUES) == {get_key_name(new): 2, get_key_name(old): 3}
    assert rotate_column(VALUES, size=2).rotated == 3
    assert rotate_column(VALUES, size=2).rotated == 0


def test_a_value_that_is_replaced_meanwhile_stays_replaced(
    settings: Settings, keys: Callable[..., None], secrets: list[Secret], monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = settings.FIELD_ENCRYPTION_KEYS
    new = new_key()
    keys(new, old)

    def replace_and_encrypt(text: str, place: str) -> str:
        monkeypatch.setattr(key_rotation, "encrypt", encrypt)
        # By a process that was not started with the new key yet.
        keys(old)
        secrets[0].value = planted("a fresh value")
        secrets[0].save()
        keys(new, old)
        return encrypt(text, place)

    monkeypatch.setattr(key_rotation, "encrypt", replace_and_encrypt)
    rotate_column(VALUES)
    assert Secret.objects.get(pk=secrets[0].pk).value == planted("a fresh value")
    assert count_keys(VALUES) == {get_key_name(new): 5}


def test_second_factors_are_rotated_too(settings: Settings, keys: Callable[..., None], admin: User) -> None:
    adapter = get_adapter()
    kinds = Authenticator.Type
    for kind, name in ((kinds.TOTP, "secret"), (kinds.RECOVERY_CODES, "seed")):
        Authenticator.objects.create(
            user=admin, type=kind, data={name: adapter.encrypt(f"the {name}"), "used_mask": 3}
        )
    new = new_key()
    keys(new, *settings.FIELD_ENCRYPTION_KEYS)
    assert "mfa_authenticator.data.seed: 1 of 1 values" in rotate_keys()
    keys(new)
    totp, codes = Authenticator.objects.order_by("pk")
    assert adapter.decrypt(totp.data["secret"]) == "the secret"
    assert (adapter.decrypt(codes.data["seed"]), codes.data["used_mask"]) == ("the seed", 3)
    assert rotate_column(SecondFactorColumn("secret")).rotated == 0


def test_entered_values_of_forms_are_rotated_too(
    settings: Settings, keys: Callable[..., None], admin: User
) -> None:
    draft = FormDraft.objects.create(user=admin, noun="connector", content='{"path": "/here"}')
    new = new_key()
    keys(new, *settings.FIELD_ENCRYPTION_KEYS)
    assert "web_formdraft.content: 1 of 1 values" in rotate_keys()
    keys(new)
    assert FormDraft.objects.get(pk=draft.pk).content == '{"path": "/here"}'


def test_what_is_stored_encrypted_is_in_a_column_that_the_rotation_finds() -> None:
    """A module that encrypts by itself stores values which no rotation would know."""
    callers = {
        str(path.relative_to(ROOT))
        for path in ROOT.glob("*/**/*.py")
        if path.relative_to(ROOT).parts[0] in PACKAGES and "encrypt" in list_imported_names(path)
    }
    assert callers == {
        "rbac/encrypted_fields.py",
        "connectors/key_rotation.py",
        # Second factors, which have columns of their own in the rotation.
        "accounts/authentication/adapters.py",
        # A link of minutes, in a session.
        "accounts/pages/account_recovery.py",
    }


def list_imported_names(path: Path) -> set[str]:
    """Return what a module imports from the cipher."""
    source = path.read_bytes()
    # Parsing every module of the project takes seconds.
    tree = ast.parse(source if b"rbac.encryption" in source else b"")
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in imports if node.module == "rbac.encryption" for alias in node.names}


def test_what_no_key_reads_is_left_and_told(
    settings: Settings, keys: Callable[..., None], secrets: list[Secret]
) -> None:
    old = settings.FIELD_ENCRYPTION_KEYS
    keys(new_key())
    with pytest.raises(CommandError, match="5 values could not be decrypted"):
        rotate_keys()
    keys(*old)
    assert Secret.objects.get(pk=secrets[0].pk).value == planted("the value 0")


def test_a_rotation_changes_neither_version_nor_moment(
    settings: Settings, keys: Callable[..., None], secrets: list[Secret]
) -> None:
    before = list(Secret.objects.order_by("pk").values("version", "updated_at", "rotated_at"))
    keys(new_key(), *settings.FIELD_ENCRYPTION_KEYS)
    rotate_column(VALUES)
    assert list(Secret.objects.order_by("pk").values("version", "updated_at", "rotated_at")) == before


@pytest.mark.django_db
def test_every_encrypted_column_is_known() -> None:
    assert {str(column) for column in list_encrypted_columns()} >= {
        "connectors_secret.value",
        "delegates_delegatetoken.value",
        "delegates_delegatetask.payload",
        "delegates_delegatetask.result",
        "deployments_awscall.parameters",
        "deployments_awscall.result",
        "deployments_rollbackvalue.value",
    }


@pytest.mark.django_db
def test_an_empty_value_has_no_key(project: Scope) -> None:
    empty = Secret.objects.create(scope=project, identifier="empty", name="E", value="")
    assert rotate_column(VALUES).values == 0
    assert not isinstance(Secret.objects.get(pk=empty.pk).value, EncryptedValue)


def test_values_from_before_they_were_bound_are_read_and_bound(
    settings: Settings, secrets: list[Secret]
) -> None:
    (key,) = settings.FIELD_ENCRYPTION_KEYS
    old = Fernet(key).encrypt(planted("from before").encode()).decode()
    Secret.objects.filter(pk=secrets[0].pk).update(value=EncryptedValue(old))
    assert Secret.objects.get(pk=secrets[0].pk).value == planted("from before")
    assert count_keys(VALUES) == {get_first_key_name(): 4, f"{get_first_key_name()}{UNBOUND_SUFFIX}": 1}
    with pytest.raises(CommandError, match="1 values use an older key or format"):
        rotate_keys("--check")
    assert rotate_column(VALUES).rotated == 1
    assert count_keys(VALUES) == {get_first_key_name(): 5}
    assert Secret.objects.get(pk=secrets[0].pk).value == planted("from before")
