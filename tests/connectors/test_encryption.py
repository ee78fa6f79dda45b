"""Values at rest: unreadable in the database, readable with any of the keys, never with another."""

import pytest
from cryptography.fernet import Fernet
from django.db import connection
from pytest_django import Settings

from connectors.encryption import WrongKey, decrypt, encrypt, rotate
from connectors.models import Secret
from rbac.models import Scope

VALUE = "wJalrXUtnFEMI/K7MDENG é"


def test_a_token_does_not_show_the_text() -> None:
    assert VALUE not in encrypt(VALUE)
    assert encrypt(VALUE) != encrypt(VALUE)
    assert decrypt(encrypt(VALUE)) == VALUE


def test_an_old_key_still_reads_and_the_new_one_writes(settings: Settings) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.FIELD_ENCRYPTION_KEYS = (old,)
    token = encrypt(VALUE)
    settings.FIELD_ENCRYPTION_KEYS = (new, old)
    rotated = rotate(token)
    settings.FIELD_ENCRYPTION_KEYS = (new,)
    assert decrypt(rotated) == VALUE
    with pytest.raises(WrongKey, match="FIELD_ENCRYPTION_KEY"):
        decrypt(token)


def test_a_tampered_token_is_refused() -> None:
    with pytest.raises(WrongKey):
        decrypt(encrypt(VALUE)[:-2] + "xx")
    with pytest.raises(WrongKey):
        decrypt("plain text")


def test_the_database_holds_only_the_token(project: Scope) -> None:
    secret = Secret.objects.create(scope=project, identifier="key", name="Key", value=VALUE)
    with connection.cursor() as cursor:
        cursor.execute("SELECT value FROM connectors_secret WHERE id = %s", [secret.pk])
        (stored,) = cursor.fetchone()
    assert VALUE not in stored
    assert decrypt(stored) == VALUE
    secret.refresh_from_db()
    assert secret.value == VALUE


def test_a_value_is_opened_only_when_it_is_asked_for(project: Scope, settings: Settings) -> None:
    Secret.objects.create(scope=project, identifier="key", name="Key", value=VALUE)
    settings.FIELD_ENCRYPTION_KEYS = (Fernet.generate_key().decode(),)
    secret = Secret.objects.get(identifier="key")
    assert VALUE not in repr(Secret.objects.values("value").get())
    with pytest.raises(WrongKey):
        _ = secret.value
    secret.value = "a fresh value"
    secret.save()
    assert Secret.objects.defer("value").get(identifier="key").value == "a fresh value"
