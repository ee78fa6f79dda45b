"""Shifts of traffic that workers, AWS or people interrupt: what was found comes back, and nothing is lost."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from deployments.approvals.operations import reject_step
from deployments.engine.lease import LEASE_DURATION
from deployments.execution.operations import abort_execution
from deployments.journal.runtime import set_hook
from deployments.models import Approval, AwsCall, Execution, StepExecution
from rbac.models import Scope, User, UserGroup
from tests.deployments.engine.simulator.schedule import Death
from tests.stories.blue_green.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)

SHIFT = {"steps": [{"weight": 10, "bakeTime": "1m"}, {"weight": 50, "bakeTime": "1m"}]}


@pytest.fixture(autouse=True)
def _no_hook_stays() -> Iterator[None]:
    yield
    set_hook(None)


def _state(shop: Shop) -> dict[str, Any]:
    return {**shop.state(), "weights": shop.weights()}


def _deploy_first(shop: Shop, *shifts: dict[str, Any], **settings: Any) -> dict[str, Any]:
    assert shop.run("1").status == "SUCCESS"
    shop.choose(shifts=shifts or (SHIFT,), **settings)
    return _state(shop)


def _until_shifted(shop: Shop, percent: int) -> Execution:
    execution = shop.drive.start("2")
    line = f"receives {percent} % of production traffic"
    shop.pass_until(execution, lambda log: any(line in text for text in log))
    return execution


def _get_result(execution: Execution) -> tuple[str, str]:
    execution.refresh_from_db()
    return execution.status, execution.outcome


def _list_listener_writes(execution: Execution, phase: str = "") -> list[AwsCall]:
    calls = AwsCall.objects.filter(execution=execution, operation="ModifyListener", state="ANSWERED")
    return list(calls.filter(phase__startswith=phase).order_by("pk"))


def _let_time_pass(shop: Shop, seconds: float) -> None:
    shop.drive.clock.move(seconds)
    shop.drive.sandbox.advance(seconds)


def _die_at_every_write(shop: Shop, execution: Execution) -> list[str]:
    """Let workers die over each write of the rest of an execution."""
    handled_ids: set[int] = set()
    deaths: list[str] = []

    def die(name: str) -> None:
        rows = AwsCall.objects.filter(is_write=True, state="SENT").exclude(pk__in=handled_ids)
        if name == "call.sent" and (fresh := list(rows.values_list("pk", "operation"))):
            handled_ids.update(pk for pk, _ in fresh)
            deaths.extend(operation for _, operation in fresh)
            raise Death

    set_hook(die)
    for _ in range(600):
        try:
            shop.drive.reconcile()
        except Death:
            _let_time_pass(shop, LEASE_DURATION.total_seconds() + 1)
        execution.refresh_from_db()
        if execution.is_over:
            return deaths
        _let_time_pass(shop, 5)
    raise AssertionError(shop.drive.log(execution)[-8:])


def test_workers_that_die_over_writes_of_a_rollback_still_bring_the_weights_back(shop: Shop) -> None:
    before = _deploy_first(shop)
    execution = _until_shifted(shop, 50)
    abort_execution(actor=shop.drive.deployer, execution=execution, roll_back=True)
    deaths = _die_at_every_write(shop, execution)
    assert "ModifyListener" in deaths
    assert _get_result(execution) == ("ABORTED", "ROLLED_BACK"), shop.drive.log(execution)
    assert _state(shop) == before
    assert len(_list_listener_writes(execution, "undo")) == 1


@pytest.mark.parametrize("percent", [10, 50])
def test_an_answer_that_is_lost_is_confirmed_by_the_weights(shop: Shop, percent: int) -> None:
    _deploy_first(shop)
    execution = shop.drive.start("2")
    if percent == 50:
        shop.pass_until(execution, lambda log: any("receives 10 %" in text for text in log))
    shop.drive.sandbox.fault("lost_answer", service="elbv2", operation="ModifyListener", count=1)
    shop.until_over(execution, visited=True)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED"), shop.drive.log(execution)
    # Two shares, and both rules of the swap.
    assert len(_list_listener_writes(execution)) == 4
    assert shop.meetings == []


def test_two_prod_listeners_shift_together_and_go_back_together(shop: Shop) -> None:
    rule = {
        "prodListener": shop.prod["arn"],
        "prodListenerRuleArn": shop.prod["path_rule_arn"],
        "stageListener": shop.stage["arn"],
    }
    shop.call(
        "elbv2",
        "ModifyRule",
        RuleArn=shop.prod["path_rule_arn"],
        Actions=[{"Type": "forward", "TargetGroupArn": shop.group("target1")}],
    )
    shop.choose(moreListeners=[rule])
    before = _deploy_first(shop, moreListeners=[rule])
    execution = _until_shifted(shop, 50)
    assert len(shop.forwards(shop.prod)) == len(shop.forwards(shop.prod, path=True)) == 2
    abort_execution(actor=shop.drive.deployer, execution=execution, roll_back=True)
    shop.until_over(execution, visited=True)
    assert _get_result(execution) == ("ABORTED", "ROLLED_BACK"), shop.drive.log(execution)
    assert _state(shop) == before
    assert shop.meetings == []


def test_weights_that_cannot_be_restored_ask_a_person_before_any_task_stops(shop: Shop) -> None:
    _deploy_first(shop)
    execution = _until_shifted(shop, 10)
    weights = shop.weights()
    abort_execution(actor=shop.drive.deployer, execution=execution, roll_back=True)
    shop.drive.sandbox.fault("denied", service="elbv2", operation="ModifyListener", seconds=7200)
    for _ in range(60):
        shop.drive.pass_time(5)
        execution.refresh_from_db()
        if execution.status == "INTERVENTION_WAITING":
            break
    assert execution.status == "INTERVENTION_WAITING", shop.drive.log(execution)
    assert shop.weights() == weights
    assert shop.service("shop__2")["runningCount"] == 2


@pytest.mark.parametrize("percent", [10, 100])
def test_a_shift_that_was_left_behind_is_rolled_back_before_the_next_deployment(
    shop: Shop, percent: int
) -> None:
    before = _deploy_first(shop, {"steps": [{"weight": percent, "bakeTime": "1m"}]})
    left = _until_shifted(shop, percent)
    abort_execution(actor=shop.drive.deployer, execution=left)
    shop.until_over(left)
    weights = shop.weights()
    refused = shop.run("3")
    assert refused.failure["code"] == "STAGE_RECEIVES_PRODUCTION"
    assert "roll it back" in refused.failure["message"]
    assert shop.weights() == weights
    shop.roll_back(left, visited=True)
    assert _state(shop) == before
    assert _get_result(shop.run("4", visited=True)) == ("SUCCESS", "COMPLETED")
    assert shop.meetings == []


def test_a_skipped_shift_leaves_the_share_of_the_one_before(shop: Shop) -> None:
    _deploy_first(shop, {"steps": [{"weight": 10}]}, {"steps": [{"weight": 100}]})
    document = shop.document(shifts=[{"steps": [{"weight": 10}]}, {"steps": [{"weight": 100}]}])
    steps = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]["steps"]
    steps[2]["step"]["when"] = {"stageStatus": "Success", "condition": "<+pipeline.name> == 'other'"}
    shop.save(document)
    execution = shop.run("2", visited=True)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED"), shop.drive.log(execution)
    assert StepExecution.objects.get(stage__execution=execution, identifier="shift2").status == "SKIPPED"
    assert len(shop.weights()) == 1


def test_weights_that_do_not_rise_from_step_to_step_move_nothing_more(shop: Shop) -> None:
    before = _deploy_first(shop, {"steps": [{"weight": 50}]}, {"steps": [{"weight": 10}]})
    execution = shop.run("2")
    assert execution.failure["code"] == "WEIGHT_NOT_RISING"
    assert _state(shop) == before


def test_an_approval_between_two_shifts_plans_the_rest_and_a_rejection_gives_the_share_back(
    shop: Shop,
) -> None:
    scope = Scope.objects.get(identifier="demo")
    approver = User.objects.get(username="admin")
    approver.user_groups.add(UserGroup.objects.create(scope=scope, identifier="ops", name="Ops"))
    spec = {"approvers": {"userGroups": ["ops"]}}
    approval_step = {
        "type": "HarnessApproval",
        "identifier": "go",
        "name": "Go",
        "timeout": "1h",
        "spec": spec,
    }
    shares = [{"steps": [{"weight": weight}]} for weight in (10, 100)]
    before = _deploy_first(shop, *shares, between=[{"step": approval_step}])
    execution = shop.drive.start("2")
    approval = _until_asked(shop, execution)
    (stage,) = json.loads(approval.plan)["stages"]
    plan = {step["identifier"]: step["would"] for step in stage["steps"]}
    assert [(name, would["failure"]) for name, would in plan.items()] == [("shift2", None), ("swap", None)]
    assert "100" in str(plan["shift2"]["changes"]), plan["shift2"]
    reject_step(actor=approver, approval=approval, diff=approval.plan_hash, comment="not today")
    shop.until_over(execution, visited=True)
    assert _get_result(execution)[0] == "APPROVAL_REJECTED", shop.drive.log(execution)
    assert _state(shop) == before


def _until_asked(shop: Shop, execution: Execution) -> Approval:
    for _ in range(300):
        shop.drive.pass_time(1)
        waiting = Approval.objects.filter(execution=execution, status="WAITING").exclude(plan_hash="")
        if approval := waiting.first():
            return approval
    raise AssertionError(shop.drive.log(execution)[-8:])
