"""A rehearsal finds what the run would find, and leaves the real account as it is."""

import contextlib
import html
import os
import signal
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import yaml
from django.test import Client

from deployments.models import AwsCall, Execution, ServiceLock
from deployments.preview.delegate_reads import open_in_process
from deployments.preview.operations import validate_request
from deployments.rehearsal.rehearsals import NOTHING_REHEARSED, SANDBOX_WAS_LOST, read_for_rehearsal, rehearse
from deployments.rehearsal.results import RehearsalResult
from deployments.rehearsal.step_context import OUTSIDE_AWS
from pipelines.models import Pipeline
from rbac.models import UserGroup
from tests.fixtures.engine_driver import Drive
from web.clock import get_database_time

pytestmark = [pytest.mark.django_db(transaction=True)]


def _rehearse(drive: Drive, behavior: str, tag: str = "1.28", **inputs: Any) -> RehearsalResult:
    request = validate_request(drive.deployer, drive.pipeline, tag, inputs)
    reads = read_for_rehearsal(request, drive.pipeline, open_in_process, get_database_time())
    return rehearse(request, drive.pipeline, behavior, reads)


@pytest.mark.parametrize(("behavior", "tag"), [("crashes", "crash"), ("not_pulled", "nopull")])
def test_a_rehearsal_finds_the_same_failure_as_the_run(drive: Drive, behavior: str, tag: str) -> None:
    assert drive.run("1.27").status == "SUCCESS"
    before = drive.mark()
    rehearsed = _rehearse(drive, behavior, tag)
    assert drive.effects(before) == []
    assert rehearsed.status == "FAILED"
    failure = drive.run(tag).failure
    assert failure is not None
    assert rehearsed.reason == failure["message"]


def test_a_rehearsal_of_a_good_image_ends_well_and_leaves_no_rows(drive: Drive) -> None:
    before = drive.mark()
    rehearsed = _rehearse(drive, "healthy")
    assert (rehearsed.status, rehearsed.reason) == ("SUCCEEDED", "")
    assert [step.status for step in rehearsed.steps] == ["SUCCEEDED"]
    assert "ecs:CreateService" in rehearsed.steps[0].writes
    assert drive.effects(before) == []
    assert not Execution.objects.exists()
    assert not AwsCall.objects.exists()
    assert not ServiceLock.objects.exists()


def test_a_rehearsal_meets_the_denials_of_the_simulation(drive: Drive) -> None:
    drive.sandbox.fault("denied", service="ecs", operation="CreateService")
    rehearsed = _rehearse(drive, "healthy")
    assert rehearsed.denied == ["ecs:CreateService"]
    assert rehearsed.status == "FAILED"
    assert rehearsed.reason.startswith("AWS denied ecs:CreateService")


@pytest.mark.parametrize("identifier", ["blue_green_demo", "traffic_shift_demo"])
def test_a_blue_green_release_is_rehearsed_with_its_listeners(drive: Drive, identifier: str) -> None:
    drive.pipeline = Pipeline.objects.get(identifier=identifier)
    assert drive.run("1.27").status == "SUCCESS"
    before = drive.mark()
    rehearsed = _rehearse(drive, "healthy")
    assert (rehearsed.status, rehearsed.reason) == ("SUCCEEDED", "")
    assert drive.effects(before) == []


def test_page_and_api_show_a_rehearsal_with_its_failure(drive: Drive, client: Client) -> None:
    client.force_login(drive.deployer)
    form = {"tag": "1.28", "behavior": "crashes"}
    page = client.post(f"/pipelines/{drive.pipeline.pk}/rehearsal/", form).content.decode()
    assert "Nothing in AWS was changed" in page
    assert "The rehearsal failed after" in page
    assert "Preview of the same run" in page
    body = {"artifact": {"tag": "1.28"}, "behavior": "crashes"}
    address = f"/api/v1/pipelines/{drive.pipeline.pk}/rehearsal"
    document = client.post(address, body, content_type="application/json").json()
    assert (document["status"], document["steps"][0]["status"]) == ("FAILED", "FAILED")
    assert document["reason"] in html.unescape(page)


def test_a_step_outside_aws_is_not_rehearsed_and_the_next_one_is(drive: Drive) -> None:
    document = yaml.safe_load(drive.pipeline.yaml)
    step = {
        "type": "ShellScript",
        "name": "Announce",
        "identifier": "announce",
        "timeout": "1m",
        "spec": {"shell": "Bash", "source": {"type": "Inline", "spec": {"script": "exit 7"}}},
    }
    execution = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]
    execution["steps"].insert(0, {"step": step})
    drive.pipeline.yaml = yaml.safe_dump(document)
    drive.pipeline.save()
    rehearsed = _rehearse(drive, "healthy")
    assert [step.status for step in rehearsed.steps] == ["NOT_REHEARSED", "SUCCEEDED"]
    assert rehearsed.steps[0].reason == OUTSIDE_AWS
    assert (rehearsed.status, rehearsed.reason) == ("SUCCEEDED", "1 of 2 steps could not be rehearsed.")
    del execution["steps"][1:]
    drive.pipeline.yaml = yaml.safe_dump(document)
    drive.pipeline.save()
    rehearsed = _rehearse(drive, "healthy")
    assert [step.status for step in rehearsed.steps] == ["NOT_REHEARSED"]
    assert (rehearsed.status, rehearsed.reason) == ("UNKNOWN", NOTHING_REHEARSED)


def _build_script_step(identifier: str, output: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"shell": "Bash", "source": {"type": "Inline", "spec": {"script": "true"}}}
    spec["outputVariables"] = [{"name": output, "type": "String", "value": output.upper()}]
    base = {"type": "ShellScript", "name": identifier, "identifier": identifier, "timeout": "1m"}
    return {"step": base | {"spec": spec}}


def _build_wait(identifier: str, condition: str) -> dict[str, Any]:
    when = {"stageStatus": "Success", "condition": condition}
    base = {"type": "Wait", "name": identifier, "identifier": identifier, "when": when}
    return {"step": base | {"spec": {"duration": "1m"}}}


@pytest.mark.parametrize(
    "other",
    [
        {"type": "Wait", "spec": {"duration": "1m"}},
        {"type": "HarnessApproval", "spec": {"approvers": {"userGroups": ["ops"], "minimumCount": 1}}},
    ],
)
def test_a_rehearsal_without_an_ecs_step_has_an_unknown_end_despite_a_wait_or_an_approval(
    drive: Drive, other: dict[str, Any]
) -> None:
    UserGroup.objects.create(scope=drive.pipeline.scope, identifier="ops", name="Operations")
    document = yaml.safe_load(drive.pipeline.yaml)
    execution = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]
    condition = '<+steps.check.output.ok> == "yes"'
    execution["steps"][0]["step"]["when"] = {"stageStatus": "Success", "condition": condition}
    first = {"step": {"name": "First", "identifier": "first", "timeout": "5m"} | other}
    execution["steps"][:0] = [first, _build_script_step("check", "ok")]
    drive.pipeline.yaml = yaml.safe_dump(document)
    drive.pipeline.save()
    rehearsed = _rehearse(drive, "crashes")
    statuses = ["SUCCEEDED", "NOT_REHEARSED", "NOT_REHEARSED"]
    assert [step.status for step in rehearsed.steps] == statuses
    assert (rehearsed.status, rehearsed.reason) == ("UNKNOWN", NOTHING_REHEARSED)


def test_a_step_runs_by_its_condition_if_the_rehearsal_knows_it_and_not_otherwise(drive: Drive) -> None:
    document = yaml.safe_load(drive.pipeline.yaml)
    execution = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]
    deploy = execution["steps"][0]["step"]["identifier"]
    conditions = {
        "unknown": '<+steps.other.output.time> == "1"',
        "true": f'<+steps.{deploy}.output.serviceName> == "myapp"',
        "false": f'<+steps.{deploy}.output.serviceName> == "another"',
    }
    waits = [_build_wait(f"wait_{name}", condition) for name, condition in conditions.items()]
    execution["steps"] += [_build_script_step("other", "time"), *waits]
    drive.pipeline.yaml = yaml.safe_dump(document)
    drive.pipeline.save()
    steps = {step.step_data.step.identifier: step for step in _rehearse(drive, "healthy").steps}
    expected = {"unknown": "NOT_REHEARSED", "true": "SUCCEEDED", "false": "SKIPPED"}
    assert {name: steps[f"wait_{name}"].status for name in conditions} == expected
    assert f"It depends on {conditions['unknown']}" in steps["wait_unknown"].reason


def test_a_condition_on_an_output_of_a_skipped_step_fails_as_in_the_run(drive: Drive) -> None:
    document = yaml.safe_load(drive.pipeline.yaml)
    execution = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]
    skipped = _build_script_step("announce", "time")
    skipped["step"]["when"] = {"stageStatus": "Success", "condition": '<+service.name> == "another"'}
    condition = '<+steps.announce.output.time> == "1"'
    execution["steps"][:0] = [skipped, _build_wait("pause", condition)]
    drive.pipeline.yaml = yaml.safe_dump(document)
    drive.pipeline.save()
    rehearsed = _rehearse(drive, "healthy")
    assert [step.status for step in rehearsed.steps] == ["SKIPPED", "FAILED", "NOT_REACHED"]
    failure = drive.run("1.28").failure
    assert failure is not None
    assert failure["code"] == rehearsed.steps[1].code
    assert failure["message"].endswith(rehearsed.reason)


def test_a_condition_that_a_run_may_not_reach_or_that_people_answer_stays_open(drive: Drive) -> None:
    UserGroup.objects.create(scope=drive.pipeline.scope, identifier="ops", name="Operations")
    document = yaml.safe_load(drive.pipeline.yaml)
    execution = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]
    skipped = _build_script_step("announce", "time")
    skipped["step"]["when"] = {"stageStatus": "Success", "condition": '<+service.name> == "another"'}
    approval = {"approvers": {"userGroups": ["ops"]}, "approverInputs": [{"name": "window"}]}
    ask = {"type": "HarnessApproval", "name": "Ask", "identifier": "ask", "timeout": "5m", "spec": approval}
    group = {
        "identifier": "group",
        "name": "Group",
        "when": {"stageStatus": "Success", "condition": '<+steps.other.output.ok> == "1"'},
        "steps": [_build_wait("inner", '<+steps.announce.output.time> == "1"')],
    }
    execution["steps"] += [
        skipped,
        _build_script_step("other", "ok"),
        {"stepGroup": group},
        {"step": ask},
        _build_wait("late", '<+steps.ask.output.approverInputs.window> == "now"'),
    ]
    drive.pipeline.yaml = yaml.safe_dump(document)
    drive.pipeline.save()
    steps = {step.step_data.step.identifier: step.status for step in _rehearse(drive, "healthy").steps}
    assert (steps["announce"], steps["ask"]) == ("SKIPPED", "SUCCEEDED")
    assert (steps["inner"], steps["late"]) == ("NOT_REHEARSED", "NOT_REHEARSED")


def _kill_next_sandbox(known: int, over: Event) -> None:
    """Kill the sandbox that this process starts next."""
    while not over.wait(0.01):
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                command = (folder / "cmdline").read_bytes()
                if (
                    int(parent) == os.getpid()
                    and b"--ends-with-stdin" in command
                    and int(folder.name) != known
                ):
                    os.kill(int(folder.name), signal.SIGKILL)
                    return


def test_a_rehearsal_whose_sandbox_is_killed_has_an_unknown_end(drive: Drive) -> None:
    over = Event()
    killer = Thread(target=_kill_next_sandbox, args=(drive.sandbox.process.pid, over))
    killer.start()
    rehearsed = _rehearse(drive, "healthy")
    over.set()
    killer.join()
    assert (rehearsed.status, rehearsed.reason) == ("UNKNOWN", SANDBOX_WAS_LOST)
    assert [step.status for step in rehearsed.steps] == []
