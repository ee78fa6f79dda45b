"""An acceptance run shows every difference between an account and the sandbox."""

import pytest

from aws.operations import get_iam_action
from ops.acceptance.comparison import load_sandbox_observations, summarize
from ops.acceptance.plans import list_actions
from ops.acceptance.resources import IDENTIFIER_PREFIX
from ops.acceptance.rules import Verdict, evaluate_rules
from pipelines.models import Pipeline
from tests.fixtures.engine_driver import Drive
from tests.stories.acceptance.runs import build_target, load_observations, run_acceptance, write_expected

pytestmark = pytest.mark.django_db(transaction=True)


def list_used_actions(drive: Drive, after: int) -> set[str]:
    """Return the IAM actions of all calls since then; the journal answers with a page at a time."""
    actions: set[str] = set()
    while calls := drive.sandbox.journal(after):
        actions |= {get_iam_action(call["service"], call["operation"]) for call in calls}
        after = calls[-1]["number"]
    return actions


def test_the_sandbox_keeps_every_rule_and_nothing_is_left(drive: Drive) -> None:
    target, mark = build_target(drive), drive.mark()
    run = run_acceptance(drive, target)
    used, observations = list_used_actions(drive, mark), load_observations(run)
    write_expected(observations)

    verdicts = {each.rule.identifier: (each.verdict, each.seen) for each in evaluate_rules(observations)}
    assert {name: each for name, each in verdicts.items() if each[0] is not Verdict.HELD} == {}
    assert (run.status, run.left, run.problem) == ("SUCCESS", [], "")
    assert run.verdicts == {"held": len(verdicts), "broken": 0, "not observed": 0}
    assert drive.call("ecs", "ListServices", {"cluster": "demo"})["serviceArns"] == []
    families = drive.call("ecs", "ListTaskDefinitions", {"familyPrefix": "slipway-acceptance"})
    assert families["taskDefinitionArns"] == []
    assert not Pipeline.objects.filter(identifier__startswith=IDENTIFIER_PREFIX).exists()

    # Its plan asks IAM.
    assert used - {"sts:GetCallerIdentity", "iam:SimulatePrincipalPolicy"} <= set(list_actions(target))

    expected = load_sandbox_observations()
    for observation in observations:
        assert observation.list_texts() == expected[observation.scenario].list_texts()
        assert summarize(observation) == summarize(expected[observation.scenario])


def test_rules_that_the_account_breaks_are_named(drive: Drive) -> None:
    drive.sandbox.break_rules("steady_state_event", "breaker_threshold")

    run = run_acceptance(drive, build_target(drive, has_load_balancer=False))

    broken = {
        each.rule.identifier: each.seen
        for each in evaluate_rules(load_observations(run))
        if each.verdict is Verdict.BROKEN
    }
    assert (run.status, run.is_complete) == ("FAILED", True)
    assert set(broken) == {"completed_then_steady", "breaker_threshold"}
    assert broken["breaker_threshold"][0] == "crash: deployment 2 failed after 6 tasks"
    assert "no “(service acceptance) has reached a steady state.”" in broken["completed_then_steady"][0]
