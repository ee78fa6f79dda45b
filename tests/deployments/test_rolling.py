"""The main job: a rolling deployment, watched from its first call to its true outcome."""

import pytest

from tests.deployments.driving import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_good_tag_creates_the_service_and_ends_completed(drive: Drive) -> None:
    execution = drive.run("1.27")
    for line in drive.log(execution):
        print(line)
    assert (execution.status, execution.outcome, execution.failure) == ("SUCCESS", "COMPLETED", None)


def test_a_second_deployment_updates_the_service(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("1.28")
    for line in drive.log(execution):
        print(line)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")


def test_a_crashing_image_is_diagnosed_and_rolled_back(drive: Drive) -> None:
    drive.run("1.27")
    before = drive.service()
    execution = drive.run("crash")
    for line in drive.log(execution):
        print(line)
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK")
    assert drive.service()["taskDefinition"] == before["taskDefinition"]
