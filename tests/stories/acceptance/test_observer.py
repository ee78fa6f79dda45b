"""An observer records what is new since its scenario began, however seldom it looks."""

import pytest

from ops.acceptance.observer import Observer
from tests.fixtures.engine_driver import Drive
from tests.stories.acceptance.runs import build_target

pytestmark = pytest.mark.django_db(transaction=True)


def build_observer(drive: Drive) -> Observer:
    observer = Observer(build_target(drive).caller, "demo", {"myapp": "acceptance"})
    observer.begin("update", ("myapp",))
    return observer


def test_moments_count_from_the_new_deployment_even_if_it_is_seen_when_it_is_over(drive: Drive) -> None:
    drive.run("1.27")
    observer = build_observer(drive)
    drive.run("1.28")
    observer.poll()
    drive.pass_time(60)
    observer.poll()

    observation = observer.finish()

    assert observation.list_texts()[0] == "(service acceptance) has started 1 tasks: (task 2)."
    assert 0 <= observation.events[0].seconds < 5
    old, new = observation.tasks
    assert (old.name, new.name) == ("task 1", "task 2")
    assert old.created is not None
    assert old.created < 0
    assert new.created is not None
    assert 0 <= new.created < 5
    assert new.deployment == "deployment 2"


def test_what_was_before_belongs_to_no_scenario(drive: Drive) -> None:
    drive.run("1.27")
    observer = build_observer(drive)
    observer.poll()
    observation = observer.finish()
    assert observation.events == []
    assert [task.name for task in observation.tasks] == ["task 1"]


def test_calls_that_are_denied_are_named_once(drive: Drive) -> None:
    drive.run("1.27")
    drive.sandbox.fault("denied", service="ecs", operation="DescribeTasks")
    observer = build_observer(drive)
    observer.poll()
    observer.poll()
    assert observer.finish().refused == ["ecs:DescribeTasks"]
