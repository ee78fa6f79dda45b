"""An instance is bound to a key pair: nobody else can register as it while it lives."""

import base64
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from delegates.models import DelegateEvent, DelegateInstance, DelegateToken
from delegates.models.instances import build_key_fingerprint
from delegates.protocol.instance_keys import CHALLENGE_LIFETIME, create_challenge
from delegates.protocol.problems import InstanceTaken, SignatureWrong, TooOften
from guards.limits import UNBOUND_REGISTRATIONS
from rbac.models import User
from tests.delegates.protocol.fake_agents import (
    age_heartbeat,
    build_registration,
    create_key,
    register_agent,
    register_with_key,
    send_request,
    sign_registration,
)
from web.clock import get_database_time
from web.http.problems import BadInput, Problem

pytestmark = pytest.mark.django_db


def get_problem(body: dict[str, Any], bearer: str) -> Problem:
    with pytest.raises(Problem) as error:
        send_request("register", body, bearer)
    return error.value


def test_the_holder_of_the_key_pair_registers_again_at_any_time(token: DelegateToken) -> None:
    key = create_key()
    first, second = register_with_key(token, key), register_with_key(token, key)
    assert first.instance.pk == second.instance.pk
    assert second.instance.is_bound
    assert second.acquire() == []


@pytest.mark.parametrize("with_key", [True, False], ids=["a new key pair", "no key pair"])
def test_a_second_claimant_of_a_living_instance_is_refused_and_the_first_one_goes_on(
    token: DelegateToken, with_key: bool
) -> None:
    first = register_with_key(token, create_key())
    body = (
        sign_registration(create_key(), create_challenge(get_database_time()))
        if with_key
        else build_registration()
    )
    for _ in range(2):
        problem = get_problem(body, token.value)
        assert isinstance(problem, InstanceTaken)
        assert problem.retry_after >= 60
    assert "host-1" in problem.detail
    assert "HARNESS_NAME" in problem.detail
    refused = build_key_fingerprint(body["public_key"]) if with_key else "none"
    fingerprints = f"{refused}, of the other one: {first.instance.key_fingerprint}."
    assert problem.detail.endswith(f"Key pair of this one: {fingerprints}")
    assert first.acquire() == []
    # Told once, however often it tries.
    assert DelegateEvent.objects.get(kind="REFUSED").text == problem.detail
    assert DelegateEvent.objects.get(kind="REFUSED").delegate == first.instance.delegate


def test_a_new_agent_does_not_take_the_place_of_a_living_one_without_a_key_pair(token: DelegateToken) -> None:
    old_agent = register_agent(token)
    assert isinstance(
        get_problem(sign_registration(create_key(), create_challenge(get_database_time())), token.value),
        InstanceTaken,
    )
    assert old_agent.acquire() == []


@pytest.mark.parametrize("end", ["silence", "goodbye"])
def test_a_dead_instance_is_replaced_and_the_event_says_so(token: DelegateToken, end: str) -> None:
    first = register_with_key(token, create_key())
    if end == "silence":
        age_heartbeat(first)
    else:
        first.post("deregister", {})
    second = register_with_key(token, create_key())
    assert second.instance.pk == first.instance.pk
    assert second.instance.public_key != first.instance.public_key
    newest_event = DelegateEvent.objects.filter(kind="REGISTERED").order_by("-pk")[0]
    assert "a new key pair" in newest_event.text
    with pytest.raises(Problem):
        first.acquire()


def test_agents_without_key_pairs_that_share_a_name_are_slowed_down(token: DelegateToken) -> None:
    for _ in range(UNBOUND_REGISTRATIONS + 1):
        agent = register_agent(token)
    assert not agent.instance.is_bound
    problem = get_problem(build_registration(), token.value)
    assert isinstance(problem, TooOften)
    assert "two processes" in problem.detail
    assert agent.acquire() == []


def test_a_challenge_is_good_for_one_registration(token: DelegateToken) -> None:
    key = create_key()
    body = sign_registration(key, create_challenge(get_database_time()))
    send_request("register", body, token.value)
    problem = get_problem(body, token.value)
    assert isinstance(problem, SignatureWrong)
    assert "was already used" in problem.detail


OLD = CHALLENGE_LIFETIME + timedelta(seconds=1)


@pytest.mark.parametrize(
    "fault", ["of another key", "old challenge", "made-up challenge", "signed for another name", "no base64"]
)
def test_what_proves_nothing_is_refused(token: DelegateToken, fault: str) -> None:
    key, now = create_key(), get_database_time()
    faults = {
        "of another key": {
            **sign_registration(create_key(), create_challenge(now)),
            "public_key": key.public,
        },
        "old challenge": sign_registration(key, create_challenge(now - OLD)),
        "made-up challenge": sign_registration(key, "letmein"),
        "signed for another name": sign_registration(key, create_challenge(now)) | {"name": "us"},
        "no base64": sign_registration(key, create_challenge(now)) | {"signature": "§"},
    }
    assert get_problem(faults[fault], token.value).code == "signature_wrong"
    assert not DelegateInstance.objects.exists()


@pytest.mark.parametrize("public_key", ["letmein", "x" * 45, base64.b64encode(b"x" * 31).decode(), 7])
def test_what_is_no_public_key_is_refused_by_name(token: DelegateToken, public_key: object) -> None:
    with pytest.raises(BadInput) as error:
        send_request("register", build_registration(public_key=public_key), token.value)
    assert error.value.errors[0]["path"] == "public_key"


def test_the_page_and_the_api_say_which_instances_are_bound(token: DelegateToken, admin: User) -> None:
    browser = Client()
    browser.force_login(admin)
    old_agent = register_agent(token)
    address = f"/delegates/{old_agent.instance.delegate_id}/"
    assert "Not bound to a key pair" in browser.get(address).content.decode()
    age_heartbeat(old_agent)
    register_with_key(token, create_key())
    assert "Bound to its key pair" in browser.get(address).content.decode()
    (instance,) = browser.get(f"/api/v1/delegates/{old_agent.instance.delegate_id}").json()["instances"]
    assert instance["is_bound"] is True
