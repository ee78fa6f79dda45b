"""Values at rest: unreadable in the database, readable with any of the keys, never with another."""

import pytest
from cryptography.fernet import Fernet
from django.db import connection
from django.db.models import AutoField
from pytest_django import Settings

from connectors.key_rotation import list_encrypted_columns
from connectors.models import Secret
from rbac.encrypted_fields import EncryptedValue
from rbac.encryption import DecryptionFailed, decrypt, encrypt
from rbac.models import Scope
from tests.secret_watch.marker import planted

VALUE = planted("wJalrXUtnFEMI/K7MDENG é")


def test_a_token_does_not_show_the_text() -> None:
    assert VALUE not in encrypt(VALUE)
    assert encrypt(VALUE) != encrypt(VALUE)
    assert decrypt(encrypt(VALUE)) == VALUE


def test_an_old_key_still_reads_and_the_new_one_writes(settings: Settings) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.FIELD_ENCRYPTION_KEYS = (old,)
    token = encrypt(VALUE)
    settings.FIELD_ENCRYPTION_KEYS = (new, old)
    rotated = encrypt(decrypt(token))
    settings.FIELD_ENCRYPTION_KEYS = (new,)
    assert decrypt(rotated) == VALUE
    with pytest.raises(DecryptionFailed, match="FIELD_ENCRYPTION_KEY"):
        decrypt(token)


def test_a_tampered_token_is_refused() -> None:
    with pytest.raises(DecryptionFailed):
        decrypt(encrypt(VALUE)[:-6] + "xxxx==")
    with pytest.raises(DecryptionFailed):
        decrypt("plain text")


def test_the_database_holds_only_the_token(project: Scope) -> None:
    secret = Secret.objects.create(scope=project, identifier="key", name="Key", value=VALUE)
    with connection.cursor() as cursor:
        cursor.execute("SELECT value FROM connectors_secret WHERE id = %s", [secret.pk])
        (token,) = cursor.fetchone()
    assert VALUE not in token
    assert token.startswith("2.")
    secret.refresh_from_db()
    assert secret.value == VALUE


def test_a_value_is_opened_only_when_it_is_asked_for(project: Scope, settings: Settings) -> None:
    Secret.objects.create(scope=project, identifier="key", name="Key", value=VALUE)
    settings.FIELD_ENCRYPTION_KEYS = (Fernet.generate_key().decode(),)
    secret = Secret.objects.get(identifier="key")
    assert VALUE not in repr(Secret.objects.values("value").get())
    with pytest.raises(DecryptionFailed):
        _ = secret.value
    secret.value = planted("a fresh value")
    secret.save()
    assert Secret.objects.defer("value").get(identifier="key").value == planted("a fresh value")


def test_a_token_can_be_read_at_its_place_alone() -> None:
    token = encrypt(VALUE, "here")
    assert decrypt(token, "here") == VALUE
    with pytest.raises(DecryptionFailed):
        decrypt(token, "there")


@pytest.mark.parametrize("token", ["", "2.", "2.x.y", f"2.{'0' * 8}.", "gAAAA", "2.\u20ac.\u20ac"])
def test_what_is_no_token_is_refused_as_one(token: str, settings: Settings) -> None:
    with pytest.raises(DecryptionFailed):
        decrypt(token)
    name = encrypt(VALUE).split(".")[1]
    with pytest.raises(DecryptionFailed):
        decrypt(f"2.{name}.{token}")


def test_a_value_that_is_copied_to_another_row_cannot_be_read_there(
    project: Scope, other_project: Scope
) -> None:
    their_secret = Secret.objects.create(
        scope=other_project, identifier="key", name="Key", value=planted("not for you")
    )
    own_secret = Secret.objects.create(scope=project, identifier="key", name="Key", value=VALUE)
    copied = Secret.objects.filter(pk=their_secret.pk).values_list("value", flat=True).get()
    assert isinstance(copied, EncryptedValue)
    Secret.objects.filter(pk=own_secret.pk).update(value=copied)
    with pytest.raises(DecryptionFailed):
        _ = Secret.objects.get(pk=own_secret.pk).value


def test_a_value_is_written_with_its_row_alone(project: Scope) -> None:
    secret = Secret.objects.create(scope=project, identifier="key", name="Key", value=VALUE)
    with pytest.raises(TypeError, match="save the row"):
        Secret.objects.filter(pk=secret.pk).update(value="another")


def test_a_row_can_be_saved_without_opening_its_value(project: Scope, settings: Settings) -> None:
    Secret.objects.create(scope=project, identifier="key", name="Key", value=VALUE)
    keys = settings.FIELD_ENCRYPTION_KEYS
    settings.FIELD_ENCRYPTION_KEYS = (Fernet.generate_key().decode(),)
    secret = Secret.objects.get(identifier="key")
    secret.name = "Renamed"
    secret.save()
    settings.FIELD_ENCRYPTION_KEYS = keys
    assert Secret.objects.get(identifier="key").value == VALUE


def test_whatever_tells_a_row_from_others_is_there_before_it_is_saved() -> None:
    """A column that the database fills in, as a counted key, could bind nothing."""
    for column in list_encrypted_columns():
        for name in column.field.bound_to:
            assert not isinstance(column.model._meta.get_field(name), AutoField), column
