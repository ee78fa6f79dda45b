"""Two real agents with one name and one host: the second is refused, told why, and waits for its turn."""

from datetime import timedelta

import pytest

from delegates.connectivity import AWAY_AFTER
from delegates.models import DelegateEvent, DelegateInstance, get_account_id
from delegates.operations.tokens import create_token
from rbac.models import Scope, User
from tests.faults.killable_process import Part
from tests.fixtures.agents import Api, StartAgent
from tests.fixtures.processes import wait_until
from web.clock import get_database_time

pytestmark = pytest.mark.django_db(transaction=True)


def _has_logged(part: Part, text: str) -> bool:
    return text in part.log.read_text(errors="replace")


def _count_registrations() -> int:
    return DelegateEvent.objects.filter(name="twin", kind="REGISTERED").count()


def test_a_second_process_does_not_take_over_and_takes_its_place_once_the_first_is_dead(
    api: Api, start_agent: StartAgent, account: Scope, admin: User
) -> None:
    environment = {
        "HARNESS_ACCOUNT_ID": get_account_id(),
        "HARNESS_TOKEN": create_token(actor=admin, scope=account, name="twins").value,
        "HARNESS_URL": api.url,
        "HARNESS_NAME": "twin",
        "HOSTNAME": "one-host",
        "SLIPWAY_DELEGATE_HEARTBEAT": "1",
    }
    first = start_agent(environment)
    api.until("twin", "CONNECTED")
    second = start_agent(environment)
    wait_until(lambda: _has_logged(second, "instance_taken"), "the refusal in the second agent's log")
    row = api.delegate("twin")
    assert [item["is_bound"] for item in row["instances"]] == [True]
    refused = [e for e in api("GET", f"delegates/{row['id']}/events")["results"] if e["kind"] == "REFUSED"]
    assert "Another process runs as one-host" in refused[0]["text"]
    fingerprint = row["instances"][0]["key_fingerprint"]
    assert f"of the other one: {fingerprint}." in refused[0]["text"]

    # The first one is still who it was: it beats with the session that it began with.
    (instance,) = DelegateInstance.objects.filter(delegate__name="twin")
    later = get_database_time() + timedelta(seconds=3)
    heartbeats = DelegateInstance.objects.filter(pk=instance.pk, last_heartbeat_at__gt=later)
    wait_until(heartbeats.exists, "heartbeats of the first agent")
    assert heartbeats.get().session_hash == instance.session_hash
    assert _count_registrations() == 1

    # A restart keeps the key pair: it is back at once.
    first.kill()
    first.start()
    wait_until(lambda: _count_registrations() == 2, "the first agent's return")
    assert heartbeats.get().public_key == instance.public_key

    # It dies for good, and time passes.
    first.kill()
    second.kill()
    DelegateInstance.objects.filter(pk=instance.pk).update(last_heartbeat_at=get_database_time() - AWAY_AFTER)
    second.start()
    wait_until(lambda: _count_registrations() == 3, "the second agent in the place of the first")
    assert DelegateInstance.objects.get(pk=instance.pk).public_key != instance.public_key
    api.until("twin", "CONNECTED")
