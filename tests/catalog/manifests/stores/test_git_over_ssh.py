"""Deployments from a repository over SSH, whose server is known again by its key."""

from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from connectors.host_keys import get_known_server, record_host_key
from connectors.models import Connector
from connectors.operations import create_connector, create_secret, update_connector
from delegates.access.connector_tests import run_connector_test
from delegates.task_owners import register_task_owner
from deployments.journal.aws_access import CALL_OWNER
from deployments.journal.call_owner import CallOwner
from guards.host_keys import parse_host_keys
from rbac.models import AuditEntry, Scope, User
from tests.catalog.manifests.stores.conftest import Move, texts
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand
from tests.fixtures.git import GitServer
from tests.fixtures.ssh import SshServer, new_key, public
from tests.secret_watch.marker import planted
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db(transaction=True)
MAIN = {"connector": "shop", "branch": "main"}


def fingerprint(text: str) -> str:
    return parse_host_keys(text)[0].fingerprint


def connector(server: SshServer, **spec: object) -> Connector:
    """A connector over SSH, with its key as a secret."""
    admin, scope = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    # What follows the key is no part of it.
    value = f"{server.key}{planted('comment')}\n"
    key = create_secret(actor=admin, scope=scope, identifier="key", name="Key", value=value)
    return create_connector(
        actor=admin,
        scope=scope,
        identifier="shop",
        name="Shop",
        kind="Git",
        spec={"url": server.url, "authentication": "SshKey", **spec},
        secret=key,
    )


def test_the_first_key_of_a_server_is_kept_and_another_one_needs_a_person(
    drive: Drive,
    git_server: GitServer,
    ssh_server: SshServer,
    move: Move,
    browse: Callable[[User], Client],
) -> None:
    git_server.commit(texts())
    found = connector(ssh_server)
    move("Git", MAIN)
    assert drive.run("1.27").status == "SUCCESS"
    found.refresh_from_db()
    assert [str(one) for one in get_known_server(found).keys] == [ssh_server.host_key]
    new = ssh_server.renew()
    failed = drive.run("1.27")
    assert failed.failure is not None
    assert failed.failure["code"] == "HOST_KEY_CHANGED"
    for one in (ssh_server.host_key, new):
        assert fingerprint(one) in failed.failure["message"]
    client = browse(User.objects.get(username="admin"))
    assert "The host key of the server changed" in client.get(f"/connectors/{found.pk}/").content.decode()
    asked = client.get(f"/connectors/{found.pk}/host-key/").content.decode()
    assert fingerprint(ssh_server.host_key) in asked
    assert fingerprint(new) in asked
    wrong = client.post(f"/connectors/{found.pk}/host-key/", {"fingerprint": "SHA256:other"})
    assert wrong.status_code == 409
    accepted = client.post(f"/connectors/{found.pk}/host-key/", {"fingerprint": fingerprint(new)})
    assert accepted.status_code == 302
    assert drive.run("1.27").status == "SUCCESS"
    audit = AuditEntry.objects.filter(thing_type="connectors.connector", action__contains="host_key")
    assert list(audit.order_by("pk").values_list("action", "actor_name")) == [
        ("connector.keep_host_key", "slipway"),
        ("connector.refuse_host_key", "slipway"),
        ("connector.accept_host_key", "admin"),
    ]


def test_a_delegate_compares_the_key_and_tells_the_first_one(
    drive: Drive, git_server: GitServer, ssh_server: SshServer, move: Move
) -> None:
    git_server.commit(texts())
    found = connector(ssh_server, connect_through="Delegate", delegate_selectors=["net"])
    move("Git", MAIN)
    one = hand("net-1", tags=("net",))
    register_task_owner(CALL_OWNER, CallOwner(drive.runtime))
    try:
        outcomes = []
        for _ in range(2):
            execution = drive.start("1.27")
            while not execution.is_over:
                drive.reconcile()
                if not one.serve():
                    drive.pass_time(1)
                execution.refresh_from_db()
            outcomes.append(execution.status)
            ssh_server.renew()
    finally:
        register_task_owner(CALL_OWNER, CallOwner())
    assert outcomes == ["SUCCESS", "FAILED"]
    assert execution.failure is not None
    assert execution.failure["code"] == "HOST_KEY_CHANGED"
    found.refresh_from_db()
    server = get_known_server(found)
    assert [str(key) for key in server.keys] == [ssh_server.host_key]
    assert server.offered is not None
    assert str(server.offered) != ssh_server.host_key


def test_a_key_that_somebody_gave_counts_from_the_first_connection(
    drive: Drive, git_server: GitServer, ssh_server: SshServer, call: Callable[[User], APIClient]
) -> None:
    git_server.commit({"a": "b"})
    admin = User.objects.get(username="admin")
    found = connector(ssh_server, host_key=f"example.com {public(new_key())}")
    tested = run_connector_test(actor=admin, connector=found)
    assert not tested.ok
    assert fingerprint(ssh_server.host_key) in tested.message
    assert "accept the new key" in tested.next_step
    client, path = call(admin), f"/api/v1/connectors/{found.pk}/host-key"
    offered = client.get(path).json()["offered"]["fingerprint"]
    assert offered == fingerprint(ssh_server.host_key)
    answer = client.post(path, {"fingerprint": offered}, format="json").json()
    assert [one["fingerprint"] for one in answer["given"]] == [offered]
    found.refresh_from_db()
    assert run_connector_test(actor=admin, connector=found).ok


def test_the_offer_is_forgotten_when_the_known_key_is_back(
    drive: Drive, git_server: GitServer, ssh_server: SshServer
) -> None:
    git_server.commit({"a": "b"})
    found = connector(ssh_server)
    place = ssh_server.url.split("@")[1].split("/")[0]
    record_host_key(found, place, ssh_server.host_key)
    record_host_key(found, place, public(new_key()), is_refused=True)
    record_host_key(found, "elsewhere:22", public(new_key()), is_refused=True)
    record_host_key(found, place, "no key at all", is_refused=True)
    found.refresh_from_db()
    assert get_known_server(found).offered is not None
    assert run_connector_test(actor=User.objects.get(username="admin"), connector=found).ok
    found.refresh_from_db()
    assert get_known_server(found).offered is None
    assert [str(one) for one in get_known_server(found).keys] == [ssh_server.host_key]


def test_the_key_of_one_server_says_nothing_of_another(drive: Drive, ssh_server: SshServer) -> None:
    found, admin = connector(ssh_server), User.objects.get(username="admin")
    record_host_key(found, ssh_server.url.split("@")[1].split("/")[0], ssh_server.host_key)
    spec = {**found.spec, "url": "ssh://git@example.org/app.git"}
    changed = update_connector(actor=admin, connector=found, spec=spec, secret=found.secret)
    changed.refresh_from_db()
    assert get_known_server(changed).keys == ()


@pytest.mark.parametrize(
    ("url", "key", "words"),
    [
        ("ssh://git@example.org/app.git", "no key", "is not valid"),
        ("https://example.org/app.git", "ssh-ed25519 AAAA", "requires an ssh:// URL"),
    ],
)
def test_what_is_no_host_key_is_refused(
    drive: Drive, ssh_server: SshServer, url: str, key: str, words: str
) -> None:
    with pytest.raises(BadInput) as refused:
        connector(ssh_server, url=url, host_key=key)
    assert words in str(refused.value.errors)
