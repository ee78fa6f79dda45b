"""Single sign-on with a real provider: who comes in, as whom, and into which groups."""

from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from accounts.authentication import oidc
from accounts.authentication.oidc import SignOnFailed
from accounts.authentication.passkeys import PasskeyRefused, remove_passkey
from accounts.authentication.single_sign_on import get_or_create_user, link_identity
from accounts.authentication.two_factor import enable_two_factor
from rbac.models import AuditEntry, Scope, User, UserGroup
from tests.accounts.test_two_factor import generate_code
from tests.fixtures.identity_provider import Provider
from tests.fixtures.interleaving import act_after
from tests.fixtures.passkeys import create_passkey_row
from tests.fixtures.threads import run_concurrently, split
from tests.rbac.people import user
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
PASSWORD = planted("correct horse battery")


@pytest.fixture(autouse=True)
def _clear_failures() -> None:
    cache.clear()


def authorize(address: str, sub: str) -> str:
    """Sign in at the provider as `sub`; where it sends the browser."""
    response = requests.post(address, {"sub": sub}, allow_redirects=False, timeout=10)
    target = urlsplit(response.headers["Location"])
    return f"{target.path}?{target.query}"


def sign_in(client: Client, sub: str, next_path: str = "/deployments/"):
    start_response = client.get("/sign-in/provider/", {"next": next_path})
    return client.get(authorize(start_response["Location"], sub))


def test_a_newcomer_comes_in_with_what_the_provider_says(provider: Provider):
    provider.add_user(
        "u-1",
        email="anna@example.com",
        email_verified=True,
        preferred_username="anna",
        given_name="Anna",
        family_name="Ericsson",
    )
    client = Client()
    response = sign_in(client, "u-1", "/pipelines/")
    assert (response.status_code, response["Location"]) == (302, "/pipelines/")
    person = User.objects.get(pk=client.session["_auth_user_id"])
    assert (person.username, person.email, person.first_name) == ("anna", "anna@example.com", "Anna")
    assert not person.has_usable_password()
    assert list(SocialAccount.objects.values_list("provider", "uid")) == [(provider.url, "u-1")]
    assert AuditEntry.objects.filter(action="user.sign_in", actor_name="anna").exists()

    sign_in(Client(), "u-1")
    assert User.objects.filter(username__startswith="anna").count() == 1


def test_the_same_name_or_address_opens_nobody_s_account(provider: Provider):
    anna = user("anna", "account_admin")
    anna.email = "anna@example.com"
    anna.save()
    provider.add_user("u-2", email="anna@example.com", email_verified=True, preferred_username="anna")
    client = Client()
    sign_in(client, "u-2")
    assert User.objects.get(pk=client.session["_auth_user_id"]).username == "anna-2"


def test_an_address_that_the_provider_did_not_check_is_not_taken(provider: Provider):
    provider.add_user("u-3", email="boss@example.com", preferred_username="eve")
    sign_in(Client(), "u-3")
    assert User.objects.get(username="eve").email == ""


@pytest.mark.parametrize("email", [7, None, ["a@example.com"], "nobody", f"{'a' * 200}@{'b' * 60}.com"])
def test_an_address_that_is_none_or_too_long_is_not_taken(provider: Provider, email: object):
    claims = {"sub": "u-3", "email": email, "email_verified": True, "preferred_username": "eve"}
    assert get_or_create_user(claims).email == ""


def test_strangers_stay_out_where_new_people_are_not_let_in(provider: Provider, settings: Settings):
    settings.OIDC_ALLOW_NEW_USERS = False
    client = Client()
    response = sign_in(client, "u-4")
    assert (response.status_code, b"no Slipway user is linked to that account" in response.content) == (
        403,
        True,
    )
    assert "_auth_user_id" not in client.session


def test_a_person_links_the_two_and_comes_in_by_either(provider: Provider, settings: Settings):
    settings.OIDC_ALLOW_NEW_USERS = False
    client = Client()
    client.force_login(user("anna"))
    page = client.post("/account/provider/link/", {"proof": PASSWORD})
    callback_response = client.get(authorize(page.context["address"], "u-5"))
    assert callback_response["Location"] == "/account/"

    other = Client()
    sign_in(other, "u-5")
    assert User.objects.get(pk=other.session["_auth_user_id"]).username == "anna"
    client.post("/account/provider/unlink/")
    assert not SocialAccount.objects.exists()


@pytest.mark.parametrize("proof", [{}, {"proof": "guessed"}])
def test_an_open_session_alone_links_no_account(provider: Provider, proof: dict[str, str]):
    client = Client()
    client.force_login(user("anna"))
    assert "Your password" in client.get("/account/provider/link/").content.decode()
    refusal = client.post("/account/provider/link/", proof)
    assert (refusal.status_code, "address" in refusal.context) == (400, False)


def test_who_has_nothing_to_prove_with_links_without_it(provider: Provider):
    anna, client = user("anna"), Client()
    anna.set_unusable_password()
    anna.save()
    client.force_login(anna)
    page = client.post("/account/provider/link/")
    assert client.get(authorize(page.context["address"], "u-5"))["Location"] == "/account/"


def test_nobody_links_an_account_that_is_somebody_else_s(provider: Provider):
    sign_in(Client(), "u-6")
    client = Client()
    client.force_login(user("anna"))
    page = client.post("/account/provider/link/", {"proof": PASSWORD})
    assert client.get(authorize(page.context["address"], "u-6")).status_code == 403


def test_groups_are_those_that_the_provider_names_today(provider: Provider):
    scope = Scope.objects.account()
    for name in ("dev", "ops"):
        UserGroup.objects.create(scope=scope, identifier=name, name=name, external_name=f"/{name}")
    internal_group = UserGroup.objects.create(scope=scope, identifier="own", name="Own")
    provider.add_user("u-7", preferred_username="gina", groups=["/dev", "/unknown", "\0", 7])
    sign_in(Client(), "u-7")
    gina = User.objects.get(username="gina")
    gina.user_groups.add(internal_group)

    provider.add_user("u-7", preferred_username="gina", groups=["/ops"])
    sign_in(Client(), "u-7")
    assert {group.identifier for group in gina.user_groups.all()} == {"ops", "own"}
    entry = AuditEntry.objects.filter(action="user.follow_groups").latest("pk")
    assert (entry.before, entry.after) == ({"groups": ["/dev"]}, {"groups": ["/ops"]})

    provider.add_user("u-7", preferred_username="gina", groups="/dev")
    sign_in(Client(), "u-7")
    assert {group.identifier for group in gina.user_groups.all()} == {"dev", "own"}


def test_who_has_more_groups_than_the_provider_returns_loses_none(provider: Provider):
    group = UserGroup.objects.create(
        scope=Scope.objects.account(), identifier="dev", name="Dev", external_name="/dev"
    )
    provider.add_user("u-7", preferred_username="gina", groups=["/dev"])
    sign_in(Client(), "u-7")
    provider.add_user("u-7", preferred_username="gina", _claim_names={"groups": "src1"})
    refusal = sign_in(Client(), "u-7")
    assert (refusal.status_code, "keeps back the groups" in refusal.content.decode()) == (403, True)
    assert list(User.objects.get(username="gina").user_groups.all()) == [group]


def test_who_unlinks_the_provider_leaves_its_groups(provider: Provider):
    scope = Scope.objects.account()
    UserGroup.objects.create(scope=scope, identifier="dev", name="Dev", external_name="/dev")
    own = UserGroup.objects.create(scope=scope, identifier="own", name="Own")
    provider.add_user("u-10", preferred_username="hans", groups=["/dev"])
    client = Client()
    sign_in(client, "u-10")
    hans = User.objects.get(username="hans")
    hans.user_groups.add(own)
    hans.set_password("a long password")
    hans.save()
    client.force_login(hans)
    client.post("/account/provider/unlink/")
    assert list(hans.user_groups.all()) == [own]
    assert AuditEntry.objects.filter(action="user.follow_groups").latest("pk").after == {"groups": []}


@pytest.mark.parametrize(("has_passkey", "is_passwordless"), [(False, False), (True, False), (True, True)])
def test_who_has_no_password_unlinks_with_a_passkey_that_replaces_it(
    provider: Provider, has_passkey: bool, is_passwordless: bool
):
    client = Client()
    sign_in(client, "u-12")
    if has_passkey:
        passkey = create_passkey_row(User.objects.get(username="u-12"))
        passkey.data["is_passwordless"] = is_passwordless
        passkey.save()
    page = client.get("/account/").content.decode()
    assert ("Add a passkey that works without a password" in page) is not is_passwordless
    assert ("/account/provider/unlink/" in page) is is_passwordless
    page = client.post("/account/provider/unlink/", follow=True).content.decode()
    assert ("You have no other way to sign in" in page) is not is_passwordless
    assert SocialAccount.objects.exists() is not is_passwordless


def test_the_only_way_to_sign_in_that_is_left_is_not_removed(provider: Provider):
    client = Client()
    sign_in(client, "u-12")
    person = User.objects.get(username="u-12")
    passkey = create_passkey_row(person)
    passkey.data["is_passwordless"] = True
    passkey.save()
    client.post("/account/provider/unlink/")
    address = f"/account/passkeys/{passkey.pk}/remove/"
    page = client.get(address).content.decode()
    assert "This is your only way to sign in" in page
    assert "Remove passkey" not in page
    client.post(address, {"proof": "anything"})
    with pytest.raises(PasskeyRefused, match="Without it you could not sign in"):
        remove_passkey(actor=person, pk=passkey.pk)
    assert passkey in Authenticator.objects.all()


def test_who_was_locked_out_stays_out(provider: Provider):
    sign_in(Client(), "u-8")
    User.objects.update(is_active=False)
    client = Client()
    assert sign_in(client, "u-8").status_code == 403
    assert AuditEntry.objects.filter(action="user.sign_in_failed", thing_name="u-8").exists()
    assert "_auth_user_id" not in client.session


def test_a_second_factor_is_asked_for_after_the_provider_too(provider: Provider):
    sign_in(Client(), "u-9")
    person = User.objects.get(username="u-9")
    secret = "JBSWY3DPEHPK3PXP"
    enable_two_factor(actor=person, secret=secret, code=generate_code(secret))
    client = Client()
    assert sign_in(client, "u-9")["Location"] == "/sign-in/code/"
    assert client.post("/sign-in/code/", {"code": generate_code(secret, 1)})["Location"] == "/deployments/"


def test_a_sign_in_ends_in_the_browser_and_the_moment_where_it_began(provider: Provider):
    client = Client()
    callback_path = authorize(client.get("/sign-in/provider/")["Location"], "u-10")
    assert Client().get(callback_path).status_code == 403
    assert client.get(callback_path).status_code == 302
    client.post("/sign-out/")
    assert client.get(callback_path).status_code == 403


def test_what_the_provider_refuses_is_said(provider: Provider):
    client = Client()
    params = parse_qs(urlsplit(client.get("/sign-in/provider/")["Location"]).query)
    response = client.get("/sign-in/provider/callback/", {"state": params["state"], "error": "access_denied"})
    assert (response.status_code, b"denied the sign-in" in response.content) == (403, True)
    assert params["code_challenge_method"] == ["S256"]


def test_a_provider_that_is_away_or_is_none_is_no_error(provider: Provider, settings: Settings):
    settings.OIDC_ISSUER = f"{provider.url}/elsewhere"
    assert b"answered 404" in Client().get("/sign-in/provider/").content
    settings.OIDC_ISSUER = "http://127.0.0.1:9"
    response = Client().get("/sign-in/provider/")
    assert (response.status_code, b"Could not reach the provider" in response.content) == (403, True)


def test_the_provider_is_not_asked_at_addresses_that_may_not_be(provider: Provider, settings: Settings):
    settings.OIDC_ISSUER = "http://169.254.169.254"
    response = Client().get("/sign-in/provider/")
    assert (response.status_code, b"Could not reach the provider" in response.content) == (403, True)


def test_a_statement_for_another_program_or_sign_in_does_not_count(provider: Provider, settings: Settings):
    client = Client()
    start_path = client.get("/sign-in/provider/")["Location"]
    callback_path = authorize(start_path, "u-11")
    settings.OIDC_CLIENT_ID = "another"
    assert client.get(callback_path).status_code == 403
    assert not User.objects.filter(username="u-11").exists()


def test_nobody_is_named_by_an_unsigned_statement(provider: Provider):
    keys = requests.get(f"{provider.url}/jwks", timeout=10).json()
    unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm5hIn0."
    with pytest.raises(SignOnFailed, match="not signed with a key"):
        oidc._verify_id_token(unsigned, keys)


def test_a_very_long_subject_is_still_one_person(provider: Provider):
    user_ids = {get_or_create_user({"iss": provider.url, "sub": "x" * 255}).pk for _ in range(2)}
    other_user_ids = {get_or_create_user({"iss": provider.url, "sub": "x" * 254 + "y"}).pk}
    assert len(user_ids) == 1
    assert not user_ids & other_user_ids


def test_nobody_signs_on_with_the_name_of_slipway_itself(settings: Settings):
    settings.OIDC_ISSUER, settings.OIDC_ALLOW_NEW_USERS = "https://login.example", True
    assert get_or_create_user({"sub": "u-1", "preferred_username": "Slipway"}).username == "Slipway-2"


def test_a_first_sign_on_beside_another_one_is_repeated(settings: Settings):
    settings.OIDC_ISSUER, settings.OIDC_ALLOW_NEW_USERS = "https://login.example", True

    def sign_on_elsewhere() -> None:
        other = user("anna")
        SocialAccount.objects.create(user=other, provider=settings.OIDC_ISSUER, uid="u-1")

    reads_links = 'FROM "socialaccount_socialaccount"'
    with act_after(reads_links, sign_on_elsewhere):
        person = get_or_create_user({"sub": "u-1", "preferred_username": "anna"})
    assert SocialAccount.objects.get().user == person
    with act_after(reads_links, lambda: SocialAccount.objects.update(uid="u-3")):
        link_identity(actor=person, claims={"sub": "u-3"})


@pytest.mark.django_db(transaction=True)
def test_two_first_sign_ons_at_once_are_one_user(account: Scope, settings: Settings):
    settings.OIDC_ISSUER, settings.OIDC_ALLOW_NEW_USERS = "https://login.example", True
    claims = {"sub": "u-1", "preferred_username": "anna"}
    people, failures = split(run_concurrently(*[lambda: get_or_create_user(claims)] * 2))
    assert failures == []
    assert people[0] == people[1] == User.objects.get(username="anna")
