"""Whether a delegate is there follows from heartbeats, sockets and what people decided."""

from datetime import timedelta

import pytest
from django.utils import timezone

from delegates.connectivity import Connectivity, compute_delegate_status, is_connected
from delegates.models import Delegate, DelegateInstance

NOW = timezone.now()


def build_instance(seconds: float | None, **values: object) -> DelegateInstance:
    heartbeat_at = None if seconds is None else NOW - timedelta(seconds=seconds)
    return DelegateInstance(last_heartbeat_at=heartbeat_at, registered_at=NOW, **values)


@pytest.mark.parametrize(
    ("seconds", "values", "status", "takes_tasks"),
    [
        (None, {}, "NEVER_CONTACTED", False),
        (0, {}, "CONNECTED", True),
        (89, {}, "CONNECTED", True),
        (91, {}, "LATE", True),
        (149, {}, "LATE", True),
        (150, {}, "DISCONNECTED", False),
        (5, {"suspect_since": NOW}, "LATE", False),
        (5, {"status": "DRAINING"}, "DRAINING", False),
        (5, {"status": "GONE"}, "DISCONNECTED", False),
    ],
)
def test_an_instance_is_there_while_it_is_heard(
    seconds: float | None, values: dict[str, object], status: str, takes_tasks: bool
) -> None:
    one = build_instance(seconds, **values)
    assert compute_delegate_status(Delegate(), [one], NOW) == status
    assert is_connected(one, NOW) is takes_tasks


def test_a_delegate_is_as_well_as_the_best_of_its_instances() -> None:
    assert (
        compute_delegate_status(Delegate(), [build_instance(400), build_instance(5)], NOW)
        == Connectivity.CONNECTED
    )
    assert compute_delegate_status(Delegate(), [], NOW) == Connectivity.NEVER_CONTACTED


def test_what_people_decided_comes_before_what_is_heard() -> None:
    pending_delegate = Delegate(admission=Delegate.Admission.PENDING_APPROVAL)
    assert (
        compute_delegate_status(pending_delegate, [build_instance(5)], NOW) == Connectivity.PENDING_APPROVAL
    )
    assert compute_delegate_status(Delegate(draining=True), [build_instance(5)], NOW) == Connectivity.DRAINING
    assert (
        compute_delegate_status(Delegate(draining=True), [build_instance(500)], NOW)
        == Connectivity.DISCONNECTED
    )
