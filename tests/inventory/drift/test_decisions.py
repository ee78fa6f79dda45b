"""What differs is accepted with a reason, told again when it changes, and put on record."""

import re

import pytest
from django.test import Client

from inventory.models.drift import Drift, DriftComparison
from inventory.operations import drift
from inventory.queries.drift import list_open_drifts
from rbac.models import AuditEntry, Role, RoleAssignment, User
from rbac.policy import Forbidden
from tests.fixtures.engine_driver import Drive
from tests.fixtures.people import make_person
from tests.inventory.drift.scans import get_state, list_drifts
from web.http.problems import BadInput

STATES = DriftComparison.State


@pytest.fixture
def drifted_comparison(drive: Drive) -> DriftComparison:
    """The demo's ECS service with a field that somebody changed."""
    drive.run("1.27")
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "desiredCount": 3})
    assert list_drifts() == ["EcsServiceDefinition:desiredCount"]
    return DriftComparison.objects.get()


def test_an_accepted_field_is_told_again_once_it_changes_again(
    drifted_comparison: DriftComparison, drive: Drive
) -> None:
    admin, (field_drift,) = User.objects.get(username="admin"), list_open_drifts(drifted_comparison)
    with pytest.raises(BadInput, match="Enter a reason"):
        drift.accept_drift(actor=admin, comparison=drifted_comparison, keys=[field_drift.pk], reason="  ")
    drift.accept_drift(
        actor=admin, comparison=drifted_comparison, keys=[field_drift.pk], reason="A busy week"
    )
    assert get_state() == STATES.ACCEPTED
    list_drifts()
    assert get_state() == STATES.ACCEPTED, "it is as it was accepted"
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "desiredCount": 4})
    list_drifts()
    assert get_state() == STATES.DRIFTED
    first, second = Drift.objects.order_by("pk")
    assert (first.reason, second.reason) == ("A busy week", "")
    assert (second.desired, second.actual) == (1, 4)


def test_an_acceptance_ends_with_the_deployment_that_puts_the_field_right(
    drifted_comparison: DriftComparison, drive: Drive
) -> None:
    admin, (field_drift,) = User.objects.get(username="admin"), list_open_drifts(drifted_comparison)
    drift.accept_drift(
        actor=admin, comparison=drifted_comparison, keys=[field_drift.pk], reason="A busy week"
    )
    drive.run("1.28")
    assert list_drifts() == []
    assert get_state() == STATES.IN_STEP
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "desiredCount": 3})
    list_drifts()
    assert get_state() == STATES.DRIFTED, "what is done again was accepted by nobody"


def test_an_acceptance_outlives_a_deployment_that_leaves_the_field_as_it_is(
    drive: Drive,
) -> None:
    drive.run("1.27")
    change = {"cluster": "demo", "service": "myapp", "enableExecuteCommand": True}
    drive.call("ecs", "UpdateService", change)
    (old_drift,) = list_drifts()
    comparison, admin = DriftComparison.objects.get(), User.objects.get(username="admin")
    (field_drift,) = list_open_drifts(comparison)
    drift.accept_drift(actor=admin, comparison=comparison, keys=[field_drift.pk], reason="We debug it")
    drive.run("1.28")
    assert list_drifts() == [old_drift]
    assert get_state() == STATES.ACCEPTED


def test_an_acceptance_can_be_taken_back_and_both_are_on_record(drifted_comparison: DriftComparison) -> None:
    admin, (field_drift,) = User.objects.get(username="admin"), list_open_drifts(drifted_comparison)
    drift.accept_drift(
        actor=admin, comparison=drifted_comparison, keys=[field_drift.pk], reason="A busy week"
    )
    drift.revoke_acceptance(actor=admin, comparison=drifted_comparison, keys=[field_drift.pk])
    assert get_state() == STATES.DRIFTED
    entries = AuditEntry.objects.filter(action__startswith="drift.").order_by("pk")
    assert [entry.action for entry in entries] == ["drift.found", "drift.accept", "drift.withdraw"]
    assert entries[1].after["reason"] == "A busy week"


def test_who_may_only_look_accepts_nothing(drifted_comparison: DriftComparison, client: Client) -> None:
    viewer, (field_drift,) = User.objects.get(username="viewer"), list_open_drifts(drifted_comparison)
    with pytest.raises(Forbidden):
        drift.accept_drift(actor=viewer, comparison=drifted_comparison, keys=[field_drift.pk], reason="Mine")
    client.force_login(viewer)
    page = client.get(f"/drift/{drifted_comparison.pk}/").content.decode()
    assert "desiredCount" in page
    assert "Accept selected fields" not in page


def test_drift_links_only_to_what_its_reader_can_open(
    drifted_comparison: DriftComparison, client: Client
) -> None:
    execution = drifted_comparison.execution
    assert execution is not None
    reader, scope = make_person("reader"), execution.scope
    role = Role.objects.create(scope=scope, identifier="reader", name="Reader")
    role.set_permissions({"core_environment_view"})
    RoleAssignment.objects.create(scope=scope, role=role, user=reader)
    links = re.compile(r'href="(/(?:deployments|services)/[^"]+|[^"]+/run/)"')
    for path in ("/drift/", f"/drift/{drifted_comparison.pk}/"):
        client.force_login(User.objects.get(username="admin"))
        main = client.get(path).content.decode().partition("<main")[2]
        assert f'href="/deployments/{execution.pk}/"' in main
        client.force_login(reader)
        main = client.get(path).content.decode().partition("<main")[2]
        assert f"{execution.pipeline.name} #{execution.number}" in main
        assert links.findall(main) == []


def test_the_page_keeps_what_was_typed_where_nothing_is_chosen(
    drifted_comparison: DriftComparison, client: Client
) -> None:
    client.force_login(User.objects.get(username="admin"))
    response = client.post(
        f"/drift/{drifted_comparison.pk}/decide", {"verdict": "accept", "reason": "A busy week"}
    )
    assert response.status_code == 400
    assert "A busy week" in response.content.decode()
    assert "Select at least one field" in response.content.decode()
