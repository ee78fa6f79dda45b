"""What differs is shown without what may be a secret, whole or cut, and never as markup."""

import json

import pytest
from django.test import Client

from connectors.models import Secret
from guards.limits import DRIFT_VALUE_CHARACTERS
from inventory.drift.documents.field_rules import TASK_DEFINITION
from inventory.models.drift import Drift, DriftComparison
from inventory.operations.drift import accept_drift
from rbac.models import AuditEntry, Scope, User
from tests.fixtures.engine_driver import Drive
from tests.inventory.drift.scans import get_state, list_drifts
from tests.inventory.drift.test_drift import register_revision, update_service
from tests.secret_watch.marker import planted


@pytest.fixture
def secret(drive: Drive) -> str:
    """A value that the account keeps as a secret."""
    value = planted("of-the-database")
    scope = Scope.objects.get(path="account")
    Secret.objects.create(scope=scope, identifier="database", name="Database", value=value)
    return value


def read_pages(client: Client) -> str:
    """Return all pages and API responses about the drift."""
    comparison = DriftComparison.objects.get()
    client.force_login(User.objects.get(username="admin"))
    addresses = (f"/drift/{comparison.pk}/", "/drift/", f"/api/v1/drift/{comparison.pk}")
    return "".join(client.get(address).content.decode() for address in addresses)


def test_a_plain_value_that_is_a_known_secret_is_hidden(drive: Drive, secret: str, client: Client) -> None:
    drive.run("1.27")
    command = ["serve", f"--database=postgres://app:{secret}@db/app"]
    update_service(
        drive, taskDefinition=register_revision(drive, command=command, dockerLabels={secret: "a"})
    )
    assert f"{TASK_DEFINITION}:containerDefinitions[nginx].command" in list_drifts()
    row = Drift.objects.get(path__endswith=".command")
    assert row.actual == ["serve", "--database=postgres://app:•••@db/app"]
    assert secret not in read_pages(client)
    assert secret not in json.dumps(list(AuditEntry.objects.values_list("after", flat=True)))


def test_another_secret_in_its_place_is_another_drift(drive: Drive, secret: str) -> None:
    drive.run("1.27")
    for value in (secret, secret[::-1]):
        update_service(drive, taskDefinition=register_revision(drive, command=["serve", value]))
        list_drifts()
    assert Drift.objects.count() == 2
    assert Drift.objects.filter(resolved_at=None).count() == 1


def test_hostile_values_are_shown_as_text_and_long_ones_are_cut(drive: Drive, client: Client) -> None:
    drive.run("1.27")
    markup = '"><img src=x onerror=alert(1)>'
    labels = {markup: markup, "long": "a" * (int(DRIFT_VALUE_CHARACTERS) * 3), "right": "\u202eabc"}
    update_service(
        drive, taskDefinition=register_revision(drive, dockerLabels=labels, command=[markup, "{{7*7}}"])
    )
    assert len(list_drifts()) == 4
    text = read_pages(client)
    assert "<img src=x" not in text.replace(json.dumps(markup)[1:-1], "")
    assert "{{7*7}}" in text
    assert "a" * (int(DRIFT_VALUE_CHARACTERS) + 1) not in text


def test_names_and_values_that_no_column_holds_keep_nothing_from_being_compared(drive: Drive) -> None:
    drive.run("1.27")
    names = [{"name": f"LOG{control}", "value": "info"} for control in ("\x01", "\x02")]
    command = ["serve", "a\0b"]
    update_service(drive, taskDefinition=register_revision(drive, environment=names, command=command))
    assert len(list_drifts()) == 3
    assert len(list_drifts()) == 3, "told once"
    assert Drift.objects.count() == 3
    assert Drift.objects.get(path__endswith=".command").actual == ["serve", "a\ufffdb"]


def rename_secret(identifier: str) -> None:
    """Rename the secret: its value can only be decrypted under its first name, `database`."""
    Secret.objects.filter(name="Database").update(identifier=identifier)


def test_secrets_that_cannot_be_read_for_a_while_end_no_acceptance(drive: Drive, secret: str) -> None:
    drive.run("1.27")
    update_service(drive, enableExecuteCommand=True)
    (found,) = list_drifts()
    admin, comparison = User.objects.get(username="admin"), DriftComparison.objects.get()
    (row,) = Drift.objects.all()
    accept_drift(actor=admin, comparison=comparison, keys=[row.pk], reason="We debug it")
    for identifier in ("unreadable", "database"):
        rename_secret(identifier)
        assert list_drifts() == [found]
        assert get_state() == DriftComparison.State.ACCEPTED
    assert AuditEntry.objects.filter(action="drift.found").count() == 1, "told once"


def test_a_drift_found_without_readable_secrets_is_shown_once_they_can_be_read(
    drive: Drive, secret: str
) -> None:
    drive.run("1.27")
    update_service(drive, taskDefinition=register_revision(drive, command=["serve", secret]))
    rename_secret("unreadable")
    (hidden,) = list_drifts()
    assert "(hidden)" in hidden
    rename_secret("database")
    assert list_drifts() == [f"{TASK_DEFINITION}:containerDefinitions[nginx].command"]
    assert Drift.objects.get().actual == ["serve", "•••"]
    assert AuditEntry.objects.filter(action="drift.found").count() == 1, "told once"
