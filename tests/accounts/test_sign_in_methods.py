"""The last way to sign in stays, also when the provider changes and when two windows remove one each."""

import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.core.exceptions import ValidationError
from django.test import Client
from pytest_django import Settings

from accounts.authentication.passkeys import PasskeyRefused, remove_passkey
from accounts.authentication.single_sign_on import unlink_identity
from rbac.models import Scope, User
from tests.fixtures.passkeys import create_passkey_row
from tests.fixtures.people import make_person
from tests.fixtures.threads import run_concurrently, split
from tests.rbac.people import user

pytestmark = pytest.mark.django_db
ISSUER, NEW_ISSUER = "https://login.example", "https://login.example.net"
ROUNDS = 5


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


@pytest.mark.parametrize(
    ("issuer", "password", "source"),
    [
        ("", "Not set", "Local"),
        (NEW_ISSUER, "Not set", "Local"),
        (ISSUER, "Not set. You sign in with Example", "Single sign-on"),
    ],
)
def test_pages_name_single_sign_on_only_for_users_of_the_configured_provider(
    settings: Settings, account: Scope, issuer: str, password: str, source: str
) -> None:
    settings.OIDC_ISSUER, settings.OIDC_NAME = issuer, "Example"
    person = make_person_without_password()
    link(person)
    create_passkey_row(person)
    assert f"<dd>{password}</dd>" in open_browser(person).get("/account/").content.decode()
    admin = open_browser(make_person("admin", "account_admin", account))
    assert f"<dt>Source</dt><dd>{source}\n</dd>" in admin.get(f"/access/people/{person.pk}/").content.decode()
    found = admin.get(f"/access/people/?scope={account.path}&show=single-sign-on").content.decode()
    assert (f"/access/people/{person.pk}/" in found) is (issuer == ISSUER)


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


def test_the_link_is_kept_by_a_user_who_has_no_other_way_to_sign_in(settings: Settings) -> None:
    settings.OIDC_ISSUER = ISSUER
    person = make_person_without_password()
    link(person)
    with pytest.raises(ValidationError, match="You have no other way to sign in"):
        unlink_identity(actor=person)
    assert SocialAccount.objects.filter(user=person).exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_passkeys_that_are_removed_at_once_one_stays() -> None:
    for number in range(ROUNDS):
        person = make_person_without_password(f"person{number}")
        one, other = create_passkey_row(person), create_passkey_row(person)
        _, failures = split(
            run_concurrently(
                lambda person=person, pk=one.pk: remove_passkey(actor=person, pk=pk),
                lambda person=person, pk=other.pk: remove_passkey(actor=person, pk=pk),
            )
        )
        assert [type(failure) for failure in failures] == [PasskeyRefused]
        assert Authenticator.objects.filter(user=person, type=Authenticator.Type.WEBAUTHN).count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_passkey_is_removed_or_single_sign_on_unlinked_but_not_both(settings: Settings) -> None:
    settings.OIDC_ISSUER = ISSUER
    for number in range(ROUNDS):
        person = make_person_without_password(f"person{number}")
        link(person)
        passkey = create_passkey_row(person)
        _, failures = split(
            run_concurrently(
                lambda person=person, pk=passkey.pk: remove_passkey(actor=person, pk=pk),
                lambda person=person: unlink_identity(actor=person),
            )
        )
        assert len(failures) == 1
        assert isinstance(failures[0], PasskeyRefused | ValidationError)
        is_linked = SocialAccount.objects.filter(user=person).exists()
        assert is_linked is not Authenticator.objects.filter(pk=passkey.pk).exists()
