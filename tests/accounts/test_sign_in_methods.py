"""The last way to sign in stays, also when the provider changes."""

import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from pytest_django import Settings

from accounts.authentication.passkeys import PasskeyRefused, remove_passkey
from rbac.models import User
from tests.fixtures.passkeys import create_passkey_row
from tests.rbac.people import user

pytestmark = pytest.mark.django_db
ISSUER, NEW_ISSUER = "https://login.example", "https://login.example.net"


def make_person_without_password(name: str = "anna") -> User:
    person = user(name)
    person.set_unusable_password()
    person.save(update_fields=["password"])
    return person


def link(person: User) -> None:
    SocialAccount.objects.create(user=person, provider=ISSUER, uid=person.username)


def open_browser(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


@pytest.mark.parametrize("issuer", ["", NEW_ISSUER])
def test_a_link_to_a_former_provider_is_no_way_to_sign_in(settings: Settings, issuer: str) -> None:
    settings.OIDC_ISSUER = issuer
    person = make_person_without_password()
    link(person)
    passkey = create_passkey_row(person)
    page = open_browser(person).get(f"/account/passkeys/{passkey.pk}/remove/").content.decode()
    assert "This is your only way to sign in" in page
    with pytest.raises(PasskeyRefused, match="Without it you could not sign in"):
        remove_passkey(actor=person, pk=passkey.pk)
    assert Authenticator.objects.filter(pk=passkey.pk).exists()


def test_a_link_to_the_configured_provider_is_a_way_to_sign_in(settings: Settings) -> None:
    settings.OIDC_ISSUER = ISSUER
    person = make_person_without_password()
    link(person)
    remove_passkey(actor=person, pk=create_passkey_row(person).pk)
    assert not Authenticator.objects.filter(user=person).exists()


def test_a_user_of_a_former_provider_can_link_the_new_one(settings: Settings) -> None:
    settings.OIDC_ISSUER = NEW_ISSUER
    person = make_person_without_password()
    link(person)
    assert "/account/provider/link/" in open_browser(person).get("/account/").content.decode()


@pytest.mark.parametrize("issuer", ["", ISSUER])
def test_linking_single_sign_on_is_advised_only_where_it_is_configured(
    settings: Settings, issuer: str
) -> None:
    settings.OIDC_ISSUER = issuer
    person = make_person_without_password()
    passkey = create_passkey_row(person)
    page = open_browser(person).get(f"/account/passkeys/{passkey.pk}/remove/").content.decode()
    with pytest.raises(PasskeyRefused) as refusal:
        remove_passkey(actor=person, pk=passkey.pk)
    for text in (page, str(refusal.value)):
        assert "Add another passkey that works without a password" in text
        assert ("or link single sign-on" in text) is bool(issuer)
