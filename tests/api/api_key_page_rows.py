"""Every named page of service accounts and API keys, with all that can be asked of it."""

from tests.api.requests import Ask, Row, allow_get, get, service_account_form, use_key_of
from tests.api.required_access import Anywhere, Lists, Makes, Needs, Owner, SignedIn

EDIT, DELETE = "core_serviceaccount_edit", "core_serviceaccount_delete"
MANAGE = "core_serviceaccount_manageapikey"
THIS = use_key_of("service_account")
SIGN_IN_REQUEST = f"?challenge={'c' * 43}&state={'s' * 32}"

KEYS: dict[str, Row] = {
    "service-accounts": allow_get(Lists("core_serviceaccount_view")),
    "new-service-account": Row(
        (get(Anywhere(EDIT)), Ask("post", Makes(EDIT), body=service_account_form, is_form=True))
    ),
    "service-account": allow_get(Needs("core_serviceaccount_view"), THIS),
    "edit-service-account": Row(
        (get(Needs(EDIT)), Ask("post", Needs(EDIT, 302), body=lambda world: {"name": "X"}, is_form=True)),
        THIS,
    ),
    "delete-service-account": Row((get(Needs(DELETE)), Ask("post", Needs(DELETE, 302), is_form=True)), THIS),
    # The answer shows the key, so it leads nowhere else.
    "new-service-account-key": Row(
        (get(Needs(MANAGE)), Ask("post", Needs(MANAGE), body=lambda world: {"name": "X"}, is_form=True)), THIS
    ),
    "my-api-keys": allow_get(SignedIn()),
    "new-api-key": Row(
        (get(SignedIn()), Ask("post", SignedIn(), body=lambda world: {"name": "X"}, is_form=True))
    ),
    # The answer shows the code that the command line exchanges for a key.
    "command-line-sign-in": Row(
        (
            get(SignedIn(), SIGN_IN_REQUEST),
            Ask("post", SignedIn(), body=lambda world: {"name": "X"}, query=SIGN_IN_REQUEST, is_form=True),
        )
    ),
    "rotate-api-key": Row(
        (get(Owner()), Ask("post", Owner(), body=lambda world: {"grace": "0"}, is_form=True)),
        use_key_of("key"),
    ),
    "revoke-api-key": Row((get(Owner()), Ask("post", Owner(302), is_form=True)), use_key_of("key")),
}
