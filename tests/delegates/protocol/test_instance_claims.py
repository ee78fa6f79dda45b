"""An instance stays itself when it moves; who claims to be a live one is shown as refused."""

import uuid
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client

from delegates.models import DelegateEvent, DelegateInstance, DelegateToken, RefusedInstance
from delegates.protocol.instance_claims import EVENT_INTERVAL
from delegates.protocol.problems import InstanceTaken
from guards.limits import REFUSED_INSTANCES
from rbac.models import User
from tests.delegates.protocol.fake_agents import (
    age_heartbeat,
    build_registration,
    create_key,
    register_agent,
    register_with_key,
    send_request,
)
from web.clock import get_database_time
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db

ID, OTHER_ID = "0a" * 16, "0b" * 16
FIRST, SECOND, THIRD = "1a" * 16, "2a" * 16, "3a" * 16
NEW_PLACE = {"hostname": "host-2", "private_ip": "10.0.0.2", "instance_key": "host-2/10.0.0.2"}


def refuse_second_claimant(token: DelegateToken, **values: object) -> RefusedInstance:
    """Let a process with a key pair of its own claim a live instance."""
    with pytest.raises(InstanceTaken):
        register_with_key(token, create_key(), **values)
    return RefusedInstance.objects.latest("pk")


def test_a_moved_instance_keeps_its_row_and_says_where_it_was(token: DelegateToken) -> None:
    key = create_key()
    before = register_with_key(token, key, stable_id=ID, process_id=FIRST).instance
    after = register_with_key(token, key, stable_id=ID, process_id=SECOND, **NEW_PLACE).instance
    assert (after.pk, after.key, after.hostname) == (before.pk, "host-2/10.0.0.2", "host-2")
    assert after.public_key == before.public_key
    newest = DelegateEvent.objects.filter(kind="REGISTERED").latest("pk")
    assert newest.text.endswith("It was host-1/10.0.0.1 before.")


def test_an_instance_that_lost_its_home_is_known_by_its_host_as_before(token: DelegateToken) -> None:
    first = register_with_key(token, create_key(), stable_id=ID)
    age_heartbeat(first)
    again = register_with_key(token, create_key(), stable_id=OTHER_ID)
    assert (again.instance.pk, again.instance.stable_id) == (first.instance.pk, OTHER_ID)
    moved = register_with_key(token, create_key(), **NEW_PLACE)
    assert moved.instance.pk != first.instance.pk


def test_an_upgraded_agent_gives_its_row_the_id_and_a_former_one_keeps_it(token: DelegateToken) -> None:
    key = create_key()
    former = register_with_key(token, key)
    upgraded = register_with_key(token, key, stable_id=ID)
    downgraded = register_with_key(token, key)
    assert {former.instance.pk} == {upgraded.instance.pk, downgraded.instance.pk}
    assert downgraded.instance.stable_id == ID


def test_an_instance_that_moves_to_the_address_of_a_dead_one_retires_its_row(token: DelegateToken) -> None:
    key = create_key()
    dead = register_with_key(token, create_key(), stable_id=OTHER_ID, **NEW_PLACE)
    age_heartbeat(dead)
    register_with_key(token, key, stable_id=ID)
    moved = register_with_key(token, key, stable_id=ID, **NEW_PLACE)
    dead.instance.refresh_from_db()
    assert moved.instance.key == NEW_PLACE["instance_key"]
    assert (dead.instance.status, dead.instance.session_hash) == ("GONE", "")
    assert dead.instance.key.startswith(NEW_PLACE["instance_key"])


def test_an_instance_cannot_move_to_the_address_of_a_live_one(token: DelegateToken) -> None:
    key = create_key()
    live = register_with_key(token, create_key(), stable_id=OTHER_ID, **NEW_PLACE)
    register_with_key(token, key, stable_id=ID)
    with pytest.raises(InstanceTaken, match="host-2"):
        register_with_key(token, key, stable_id=ID, **NEW_PLACE)
    refused = RefusedInstance.objects.get()
    assert (refused.instance, refused.reason) == (live.instance, "HOST")
    assert live.acquire() == []


@pytest.mark.parametrize("name", ["stable_id", "process_id"])
@pytest.mark.parametrize("text", ["letmein", "A" * 32, "a" * 33, 7])
def test_what_is_no_id_is_refused_by_name(token: DelegateToken, name: str, text: object) -> None:
    with pytest.raises(BadInput) as error:
        send_request("register", build_registration(**{name: text}), token.value)
    assert error.value.errors[0]["path"] == name


def test_an_id_without_a_key_pair_proves_nothing(token: DelegateToken) -> None:
    instance = register_agent(token, stable_id=ID).instance
    assert instance.stable_id == ""


def test_the_second_claimant_is_a_row_of_its_own_that_gets_no_session(token: DelegateToken) -> None:
    key = create_key()
    first = register_with_key(token, create_key())
    for _ in range(2):
        with pytest.raises(InstanceTaken):
            register_with_key(token, key, version="1.2.3")
    refused = RefusedInstance.objects.get()
    assert (refused.delegate, refused.instance) == (first.instance.delegate, first.instance)
    assert (refused.reason, refused.public_key, refused.attempts) == ("HOST", key.public, 2)
    assert (refused.hostname, refused.address, refused.version) == ("host-1", "198.51.100.7", "1.2.3")
    assert refused.first_seen_at < refused.last_seen_at
    assert "HARNESS_NAME" in refused.next_step
    assert DelegateInstance.objects.count() == 1
    assert first.acquire() == []


def test_the_same_id_with_another_key_pair_is_refused_wherever_it_runs(token: DelegateToken) -> None:
    register_with_key(token, create_key(), stable_id=ID)
    refused = refuse_second_claimant(token, stable_id=ID, **NEW_PLACE)
    assert refused.reason == "STABLE_ID"
    assert "delete instance-id" in refused.next_step


def test_a_copied_home_is_noticed_once_the_displaced_process_comes_back(token: DelegateToken) -> None:
    key = create_key()
    original = register_with_key(token, key, stable_id=ID, process_id=FIRST)
    # At first it looks like a restart on another machine.
    copy = register_with_key(token, key, stable_id=ID, process_id=SECOND, **NEW_PLACE)
    with pytest.raises(InstanceTaken, match="its home directory was copied"):
        register_with_key(token, key, stable_id=ID, process_id=FIRST)
    refused = RefusedInstance.objects.get()
    assert (refused.reason, refused.process_id, refused.hostname) == ("COPY", FIRST, "host-1")
    assert "instance-key.pem" in refused.next_step
    assert copy.acquire() == []
    # A restart of the one that is admitted changes nothing for the other one.
    register_with_key(token, key, stable_id=ID, process_id=THIRD, **NEW_PLACE)
    with pytest.raises(InstanceTaken):
        register_with_key(token, key, stable_id=ID, process_id=FIRST)
    age_heartbeat(copy)
    admitted = register_with_key(token, key, stable_id=ID, process_id=FIRST)
    assert admitted.instance.pk == original.instance.pk
    assert not RefusedInstance.objects.exists()


def test_a_process_that_lost_its_session_registers_again_as_often_as_it_likes(token: DelegateToken) -> None:
    key = create_key()
    for _ in range(3):
        agent = register_with_key(token, key, stable_id=ID, process_id=FIRST)
    assert agent.acquire() == []
    assert not RefusedInstance.objects.exists()


def test_a_refused_process_leaves_the_list_when_it_is_admitted(token: DelegateToken) -> None:
    key = create_key()
    first = register_with_key(token, create_key())
    refuse_second_claimant(token)
    with pytest.raises(InstanceTaken):
        register_with_key(token, key)
    first.post("deregister", {})
    register_with_key(token, key)
    assert [row.public_key == key.public for row in RefusedInstance.objects.all()] == [False]


def test_a_claimant_without_a_key_pair_leaves_when_one_is_admitted_there(token: DelegateToken) -> None:
    first = register_with_key(token, create_key())
    with pytest.raises(InstanceTaken):
        register_agent(token)
    assert RefusedInstance.objects.get().key_fingerprint == ""
    first.post("deregister", {})
    register_agent(token)
    assert not RefusedInstance.objects.exists()


def test_a_looping_claimant_makes_one_event_an_hour(token: DelegateToken) -> None:
    key = create_key()
    register_with_key(token, create_key())
    for hours in range(1, 4):
        with pytest.raises(InstanceTaken):
            # The text of the event names the clock, which differs each time.
            register_with_key(token, key, time=get_database_time().timestamp() - hours * 3600)
    assert DelegateEvent.objects.filter(kind="REFUSED").count() == 1
    RefusedInstance.objects.update(event_at=get_database_time() - EVENT_INTERVAL)
    with pytest.raises(InstanceTaken):
        register_with_key(token, key)
    assert DelegateEvent.objects.filter(kind="REFUSED").count() == 2


def test_a_claimant_with_a_new_key_pair_each_time_fills_neither_list_nor_log(token: DelegateToken) -> None:
    register_with_key(token, create_key())
    refused = refuse_second_claimant(token)
    now = get_database_time()
    rows = [
        RefusedInstance(
            delegate=refused.delegate,
            instance=refused.instance,
            public_key=uuid.uuid4().hex,
            first_seen_at=now,
            last_seen_at=now,
            event_at=now,
        )
        for _ in range(int(REFUSED_INSTANCES) - 1)
    ]
    RefusedInstance.objects.bulk_create(rows)
    cache.clear()
    refuse_second_claimant(token)
    assert RefusedInstance.objects.count() == REFUSED_INSTANCES
    assert DelegateEvent.objects.filter(kind="REFUSED").count() == 1
    # The one that no longer tries leaves for a new one.
    long_ago = now - timedelta(hours=2)
    RefusedInstance.objects.filter(pk=refused.pk).update(last_seen_at=long_ago)
    cache.clear()
    refuse_second_claimant(token)
    assert RefusedInstance.objects.count() == REFUSED_INSTANCES
    assert not RefusedInstance.objects.filter(pk=refused.pk).exists()
    assert DelegateEvent.objects.filter(kind="REFUSED").count() == 2


def test_the_page_and_the_api_show_the_refused_process_with_the_next_step(
    token: DelegateToken, admin: User
) -> None:
    first = register_with_key(token, create_key(), stable_id=ID)
    refused = refuse_second_claimant(token)
    browser = Client()
    browser.force_login(admin)
    page = browser.get(f"/delegates/{refused.delegate_id}/").content.decode()
    assert refused.key_fingerprint in page
    assert "Gets no tasks" in page
    document = browser.get(f"/api/v1/delegates/{refused.delegate_id}").json()
    assert document["instances"][0]["stable_id"] == ID
    (row,) = document["refused_instances"]
    assert row["key_fingerprint"] == refused.key_fingerprint
    assert (row["instance"], row["reason"]) == (first.instance.pk, "HOST")
    assert row["next_step"] == refused.next_step
