"""The tick of each second: one message for executions, delegates and notifications."""

import pytest

from delegates.models import Delegate
from deployments.models import Pulse
from notifications import tasks as notifications
from ops.tasks import tick

pytestmark = pytest.mark.django_db


def test_a_tick_looks_after_executions_and_delegates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deployments.engine.dispatch._last_pulse", {})
    tick()
    assert Pulse.objects.filter(name="dispatcher").exists()
    assert Delegate.objects.get(is_built_in=True).instances.exists()


def test_what_fails_does_not_keep_the_others_back(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[str] = []

    def fail() -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr("ops.tasks.dispatch", fail)
    monkeypatch.setattr(notifications, "tick", lambda: reached.append("notifications"))
    with pytest.raises(RuntimeError, match="a mistake"):
        tick()
    assert reached == ["notifications"]
    assert Delegate.objects.get(is_built_in=True).instances.exists()
