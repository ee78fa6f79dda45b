"""Damaged answers of a browser with a passkey are refused, whatever is damaged."""

import json
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.http import HttpRequest
from django.test import RequestFactory
from fido2.utils import websafe_decode, websafe_encode
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from accounts.authentication import passkeys
from accounts.authentication.passkeys import PasskeyRefused, Purpose
from tests.accounts.test_passkeys import add_passkey, open_browser
from tests.fixtures.passkeys import SoftwarePasskey
from tests.lanes import examples
from tests.rbac.people import user

pytestmark = pytest.mark.django_db
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def test_no_registration_of_a_browser_is_a_mistake_of_ours():
    anna, passkey = user("anna"), SoftwarePasskey()
    request = build_request()

    @damaged_examples
    def refuse(**damage_at: Any) -> None:
        options = passkeys.begin_registration(request, actor=anna, name="Laptop", is_passwordless=True)
        answer = damage(passkey.register(options), **damage_at)
        with suppress(PasskeyRefused):
            passkeys.add_passkey(request, actor=anna, registration=json.dumps(answer))
            # Some damage changes nothing that counts, such as the name of a part that is not read.
            Authenticator.objects.all().delete()

    refuse()


@pytest.mark.parametrize("part", ["rawId", "clientDataJSON", "userHandle"])
def test_a_number_in_place_of_bytes_allocates_no_memory(part: str) -> None:
    response: dict[str, Any] = {"clientDataJSON": "e30", "authenticatorData": "AA", "signature": "AA"}
    document: dict[str, Any] = {"id": "AA", "rawId": "AA", "type": "public-key", "response": response}
    (document if part in document else response)[part] = 10**8
    answer = json.dumps(document)
    tracemalloc.start()
    assert passkeys.find_claimed_user(answer) is None
    with pytest.raises(PasskeyRefused):
        passkeys.verify_assertion(build_request(), Purpose.SIGN_IN, person=user("anna"), assertion=answer)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**7


def test_no_assertion_of_a_browser_is_a_mistake_of_ours():
    anna, passkey = user("anna"), SoftwarePasskey()
    add_passkey(open_browser(anna), passkey)
    request = build_request()

    @damaged_examples
    def refuse(**damage_at: Any) -> None:
        options = passkeys.begin_assertion(request, Purpose.SIGN_IN, None)
        answer = json.dumps(damage(passkey.sign(options), **damage_at))
        if (claimed := passkeys.find_claimed_user(answer)) is not None:
            with suppress(PasskeyRefused):
                passkeys.verify_assertion(request, Purpose.SIGN_IN, person=claimed, assertion=answer)

    refuse()


def build_request() -> HttpRequest:
    request = RequestFactory(SERVER_NAME="localhost").post("/")
    request.session = {}  # type: ignore[assignment]
    return request


def damaged_examples(run: Callable[..., None]) -> Callable[[], None]:
    """Run a function with many places and values of damage."""
    places = {"path": st.integers(0, 30), "position": st.integers(0, 400), "byte": st.integers(0, 255)}
    limited = hypothesis_settings(max_examples=examples(300), deadline=None)
    return limited(given(**places, value=JSON_VALUES)(run))


def damage(answer: dict[str, Any], path: int, value: object, position: int, byte: int) -> dict[str, Any]:
    """Return an answer with one part replaced by a value, or with one byte of a part changed."""
    damaged = {**answer, "response": dict(answer["response"])}
    places = [(damaged, name) for name in answer] + [
        (damaged["response"], name) for name in answer["response"]
    ]
    target, name = places[path % len(places)]
    if path > 15 and isinstance(target[name], str):
        content = bytearray(websafe_decode(target[name]) or b"-")
        content[position % len(content)] = byte
        target[name] = websafe_encode(bytes(content))
    else:
        target[name] = value
    return damaged
