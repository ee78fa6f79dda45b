"""A sandbox can break a rule of AWS on purpose, until it is reset."""

from urllib.error import HTTPError

import pytest

from tests.contract.endpoint import BREAKER, Aws


def test_a_steady_state_has_no_event_while_that_rule_is_broken(aws: Aws) -> None:
    aws.sandbox.break_rules("steady_state_event")
    aws.create()
    aws.until_completed()
    assert not any("steady state" in event for event in aws.events())

    aws.empty()
    aws.create()
    aws.until_completed()
    assert any("steady state" in event for event in aws.events())


def test_the_breaker_trips_late_while_that_rule_is_broken(aws: Aws) -> None:
    aws.sandbox.break_rules("breaker_threshold")
    aws.create("crash", deploymentConfiguration=BREAKER)
    aws.advance(600)
    assert aws.service()["deployments"][0]["failedTasks"] == 6


def test_a_rule_that_cannot_be_broken_is_refused(aws: Aws) -> None:
    with pytest.raises(HTTPError) as caught:
        aws.sandbox.break_rules("gravity")
    with caught.value as answer:
        assert answer.code == 400


def test_a_command_that_ends_with_exit_1_crashes_an_image_that_runs(aws: Aws) -> None:
    command = ["sh", "-c", "sleep 8; exit 1"]
    aws.create(taskDefinition=aws.register(containerDefinitions=[aws.container(command=command)]))
    aws.advance(40)
    task = aws.tasks("STOPPED")[0]
    assert (task["stopCode"], task["containers"][0]["exitCode"]) == ("EssentialContainerExited", 1)
