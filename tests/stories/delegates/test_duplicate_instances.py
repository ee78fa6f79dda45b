"""Real agents that claim one identity: the second is refused, shown as a row, and waits for its turn."""

import shutil
from datetime import timedelta
from pathlib import Path

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
    (claimant,) = row["refused_instances"]
    assert (claimant["hostname"], claimant["reason"]) == ("one-host", "HOST")
    assert claimant["instance"] == row["instances"][0]["id"]
    fingerprint = row["instances"][0]["key_fingerprint"]
    assert f"Key pair of this one: {claimant['key_fingerprint']}," in refused[0]["text"]
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
    assert api.delegate("twin")["refused_instances"] == []


def test_an_instance_that_moves_keeps_its_row_and_a_copy_of_its_home_is_refused(
    api: Api, start_agent: StartAgent, account: Scope, admin: User, tmp_path: Path
) -> None:
    environment = {
        "HARNESS_ACCOUNT_ID": get_account_id(),
        "HARNESS_TOKEN": create_token(actor=admin, scope=account, name="movers").value,
        "HARNESS_URL": api.url,
        "HARNESS_NAME": "twin",
        "HOSTNAME": "old-host",
        "SLIPWAY_DELEGATE_HEARTBEAT": "1",
        "SLIPWAY_DELEGATE_HOME": str(tmp_path / "home"),
    }
    original = start_agent(environment)
    api.until("twin", "CONNECTED")
    (before,) = api.delegate("twin")["instances"]
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    original.kill()
    moved = start_agent(environment | {"HOSTNAME": "new-host"})
    wait_until(lambda: _count_registrations() == 2, "the agent on its new host")
    (after,) = api.delegate("twin")["instances"]
    assert (after["id"], after["hostname"]) == (before["id"], "new-host")
    assert after["key_fingerprint"] == before["key_fingerprint"]

    copy = {"HOSTNAME": "copied-host", "SLIPWAY_DELEGATE_HOME": str(tmp_path / "copy")}
    start_agent(environment | copy)
    wait_until(lambda: _has_logged(moved, "its home directory was copied"), "the refusal of the original")
    (claimant,) = api.delegate("twin")["refused_instances"]
    assert (claimant["hostname"], claimant["reason"]) == ("new-host", "COPY")
    assert [row["hostname"] for row in api.delegate("twin")["instances"]] == ["copied-host"]
