"""Which service is blue and which is green: told from target groups, then tasks, then tags; never guessed."""

import pytest

from steps.actions.base import ActionFailed
from steps.actions.blue_green.identity import BlueGreenCandidate, BlueGreenPair, ServiceFamily, identify_pair

ONE, TWO = "target1", "target2"
A = ServiceFamily.from_base_name("a")


def _service(name: str, group: str, tasks: int = 2, tag: str = "") -> BlueGreenCandidate:
    return BlueGreenCandidate(name, (group,), tasks, tasks, {"BG_VERSION": tag} if tag else {})


def test_the_service_in_the_group_of_production_is_blue_whatever_its_tag_says() -> None:
    services = [_service("a__1", ONE, tag="GREEN"), _service("a__2", TWO, tag="BLUE")]
    assert identify_pair(services, A, prod=[ONE], stage=[TWO]) == BlueGreenPair(blue="a__1", green="a__2")
    assert identify_pair(services, A, prod=[TWO], stage=[ONE]) == BlueGreenPair(blue="a__2", green="a__1")


def test_without_services_there_is_neither_blue_nor_green() -> None:
    assert identify_pair([], A, prod=[ONE], stage=[TWO]) == BlueGreenPair("", "")


def test_a_service_that_only_the_stage_rule_leads_to_is_green() -> None:
    assert identify_pair([_service("a__1", TWO)], A, prod=[ONE], stage=[TWO]) == BlueGreenPair("", "a__1")


def test_of_two_services_in_the_group_of_production_the_one_with_tasks_is_blue() -> None:
    services = [_service("a__1", ONE, tasks=0), _service("a__2", ONE)]
    assert identify_pair(services, A, prod=[ONE], stage=[TWO]) == BlueGreenPair("a__2", "a__1")


@pytest.mark.parametrize(
    ("candidates", "prod", "stage", "code", "todo"),
    [
        ([_service("a__1", ONE), _service("a__2", ONE)], [ONE], TWO, "BLUE_NOT_CLEAR", "down to 0 tasks"),
        ([_service("a__1", TWO), _service("a__2", TWO)], [ONE], TWO, "GREEN_NOT_CLEAR", "Delete one"),
        ([_service("a__1", "other")], [ONE], TWO, "TRAFFIC_NOT_KNOWN", "Choose the listener rules"),
        ([_service("a__1", ONE), _service("a__2", ONE)], [ONE], ONE, "BLUE_NOT_CLEAR", "down to 0 tasks"),
        (
            [_service("a__1", ONE, 0), _service("a__2", ONE, 0)],
            [ONE],
            ONE,
            "BLUE_NOT_CLEAR",
            "Tag the live one",
        ),
        ([_service("a__1", "other")], [ONE], ONE, "TRAFFIC_NOT_KNOWN", "Choose the listener rules"),
    ],
)
def test_what_cannot_be_told_stops_with_the_reason_and_what_to_do(
    candidates: list[BlueGreenCandidate], prod: list[str], stage: str, code: str, todo: str
) -> None:
    with pytest.raises(ActionFailed) as stopped:
        identify_pair(candidates, A, prod=prod, stage=[stage])
    assert stopped.value.code == code
    assert todo in stopped.value.message
    assert "a__1" in stopped.value.message


def test_with_one_group_for_both_rules_running_tasks_make_a_service_blue() -> None:
    services = [_service("a__1", ONE, tasks=0), _service("a__2", ONE)]
    assert identify_pair(services, A, prod=[ONE], stage=[ONE]) == BlueGreenPair("a__2", "a__1")


def test_with_one_group_and_no_tasks_at_all_the_tags_decide() -> None:
    services = [_service("a__1", ONE, 0, "BLUE"), _service("a__2", ONE, 0, "GREEN")]
    assert identify_pair(services, A, prod=[ONE], stage=[ONE]) == BlueGreenPair("a__1", "a__2")
