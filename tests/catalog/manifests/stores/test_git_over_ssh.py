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


def compute_fingerprint(text: str) -> str:
    return parse_host_keys(text)[0].fingerprint


def create_ssh_connector(server: SshServer, **spec: object) -> Connector:
    """Create a connector over SSH, with its key as a secret."""
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
    ssh_connector = create_ssh_connector(ssh_server)
    move("Git", MAIN)
    assert drive.run("1.27").status == "SUCCESS"
    ssh_connector.refresh_from_db()
    assert [str(host_key) for host_key in get_known_server(ssh_connector).keys] == [ssh_server.host_key]
    new_key_line = ssh_server.renew()
    failed_execution = drive.run("1.27")
    assert failed_execution.failure is not None
    assert failed_execution.failure["code"] == "HOST_KEY_CHANGED"
    for known_key in (ssh_server.host_key, new_key_line):
        assert compute_fingerprint(known_key) in failed_execution.failure["message"]
    client = browse(User.objects.get(username="admin"))
    assert (
        "The host key of the server changed"
        in client.get(f"/connectors/{ssh_connector.pk}/").content.decode()
    )
    page = client.get(f"/connectors/{ssh_connector.pk}/host-key/").content.decode()
    assert compute_fingerprint(ssh_server.host_key) in page
    assert compute_fingerprint(new_key_line) in page
    wrong_response = client.post(f"/connectors/{ssh_connector.pk}/host-key/", {"fingerprint": "SHA256:other"})
    assert wrong_response.status_code == 409
    accept_response = client.post(
        f"/connectors/{ssh_connector.pk}/host-key/", {"fingerprint": compute_fingerprint(new_key_line)}
    )
    assert accept_response.status_code == 302
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
    ssh_connector = create_ssh_connector(ssh_server, connect_through="Delegate", delegate_selectors=["net"])
    move("Git", MAIN)
    hand_agent = hand("net-1", tags=("net",))
    register_task_owner(CALL_OWNER, CallOwner(drive.runtime))
    try:
        outcomes = []
        for _ in range(2):
            execution = drive.start("1.27")
            while not execution.is_over:
                drive.reconcile()
                if not hand_agent.serve():
                    drive.pass_time(1)
                execution.refresh_from_db()
            outcomes.append(execution.status)
            ssh_server.renew()
    finally:
        register_task_owner(CALL_OWNER, CallOwner())
    assert outcomes == ["SUCCESS", "FAILED"]
    assert execution.failure is not None
    assert execution.failure["code"] == "HOST_KEY_CHANGED"
    ssh_connector.refresh_from_db()
    server = get_known_server(ssh_connector)
    assert [str(key) for key in server.keys] == [ssh_server.host_key]
    assert server.offered is not None
    assert str(server.offered) != ssh_server.host_key


def test_a_key_that_somebody_gave_counts_from_the_first_connection(
    drive: Drive, git_server: GitServer, ssh_server: SshServer, call: Callable[[User], APIClient]
) -> None:
    git_server.commit({"a": "b"})
    admin = User.objects.get(username="admin")
    ssh_connector = create_ssh_connector(ssh_server, host_key=f"example.com {public(new_key())}")
    test_result = run_connector_test(actor=admin, connector=ssh_connector)
    assert not test_result.ok
    assert compute_fingerprint(ssh_server.host_key) in test_result.message
    assert "accept the new key" in test_result.next_step
    client, path = call(admin), f"/api/v1/connectors/{ssh_connector.pk}/host-key"
    offered_fingerprint = client.get(path).json()["offered"]["fingerprint"]
    assert offered_fingerprint == compute_fingerprint(ssh_server.host_key)
    body = client.post(path, {"fingerprint": offered_fingerprint}, format="json").json()
    assert [entry["fingerprint"] for entry in body["given"]] == [offered_fingerprint]
    ssh_connector.refresh_from_db()
    assert run_connector_test(actor=admin, connector=ssh_connector).ok


def test_the_offer_is_forgotten_when_the_known_key_is_back(
    drive: Drive, git_server: GitServer, ssh_server: SshServer
) -> None:
    git_server.commit({"a": "b"})
    ssh_connector = create_ssh_connector(ssh_server)
    server_address = ssh_server.url.split("@")[1].split("/")[0]
    record_host_key(ssh_connector, server_address, ssh_server.host_key)
    record_host_key(ssh_connector, server_address, public(new_key()), is_refused=True)
    record_host_key(ssh_connector, "elsewhere:22", public(new_key()), is_refused=True)
    record_host_key(ssh_connector, server_address, "no key at all", is_refused=True)
    ssh_connector.refresh_from_db()
    assert get_known_server(ssh_connector).offered is not None
    assert run_connector_test(actor=User.objects.get(username="admin"), connector=ssh_connector).ok
    ssh_connector.refresh_from_db()
    assert get_known_server(ssh_connector).offered is None
    assert [str(host_key) for host_key in get_known_server(ssh_connector).keys] == [ssh_server.host_key]


def test_the_key_of_one_server_says_nothing_of_another(drive: Drive, ssh_server: SshServer) -> None:
    ssh_connector, admin = create_ssh_connector(ssh_server), User.objects.get(username="admin")
    record_host_key(ssh_connector, ssh_server.url.split("@")[1].split("/")[0], ssh_server.host_key)
    spec = {**ssh_connector.spec, "url": "ssh://git@example.org/app.git"}
    updated_connector = update_connector(
        actor=admin, connector=ssh_connector, spec=spec, secret=ssh_connector.secret
    )
    updated_connector.refresh_from_db()
    assert get_known_server(updated_connector).keys == ()


@pytest.mark.parametrize(
    ("url", "key", "message"),
    [
        ("ssh://git@example.org/app.git", "no key", "is not valid"),
        ("https://example.org/app.git", "ssh-ed25519 AAAA", "requires an ssh:// URL"),
    ],
)
def test_what_is_no_host_key_is_refused(
    drive: Drive, ssh_server: SshServer, url: str, key: str, message: str
) -> None:
    with pytest.raises(BadInput) as error:
        create_ssh_connector(ssh_server, url=url, host_key=key)
    assert message in str(error.value.errors)
