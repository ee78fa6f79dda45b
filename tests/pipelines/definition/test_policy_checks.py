"""Approvals in the documents of policy rules: those that hold the deployment of a stage back."""

import pytest

from pipelines.definition.parser import parse_pipeline
from pipelines.definition.policy_checks import StageFacts, build_stage_documents
from steps.kinds.registry import get_step_kinds

ASK = "step: {identifier: ask, type: HarnessApproval, spec: {approvers: {userGroups: [ops]}}}"
ROLL = "step: {identifier: roll, type: EcsRollingDeploy}"
TASK = (
    "{taskDefinitionArn: 'arn:aws:ecs:us-east-1:123456789012:task-definition/web:7', "
    "runTaskRequestDefinition: {type: Inline, spec: {content: 'count: 1'}}}"
)
CLOUD = "connectorRef: terraform, organization: acme, workspace: network"


def stage_text(identifier: str, *steps: str, when: str = "{}") -> str:
    """Return a stage with these steps, and its condition."""
    lines = "".join(f"              - {step}\n" for step in steps)
    return f"""
    - stage:
        identifier: {identifier}
        name: {identifier}
        type: Deployment
        when: {when}
        spec:
          deploymentType: ECS
          service: {{serviceRef: web}}
          environment: {{environmentRef: live, infrastructureDefinitions: [{{identifier: main}}]}}
          execution:
            steps:
{lines}"""


def list_approvals(*stages: str) -> list[list[str]]:
    """Return the approvals that count for each stage."""
    text = "pipeline:\n  identifier: p\n  name: P\n  stages:" + "".join(stages)
    facts = [StageFacts(stage, {}, {}, {}) for stage in parse_pipeline(text).stages]
    return [
        [approval["step"] for approval in document["approvals"]] for document in build_stage_documents(facts)
    ]


@pytest.mark.parametrize(
    ("type_", "spec", "count"),
    [
        ("EcsRunTask", TASK, 0),
        ("EcsDeleteService", "{service: web}", 0),
        ("ShellScript", "{shell: Bash, source: {type: Inline, spec: {script: 'true'}}}", 0),
        ("DeleteStack", "{stackName: web}", 0),
        ("TerraformCloudRun", f"{{runType: PlanAndApply, {CLOUD}}}", 0),
        ("TerraformCloudRun", f"{{runType: Apply, runId: run-1, {CLOUD}}}", 0),
        ("TerraformCloudRun", f"{{runType: PlanOnly, {CLOUD}}}", 1),
        ("Http", "{url: 'https://example.com/', method: GET}", 1),
        ("Wait", "{duration: 1m}", 1),
    ],
)
def test_an_approval_counts_only_before_the_first_deploying_step(type_: str, spec: str, count: int) -> None:
    first = f"step: {{identifier: first, type: {type_}, spec: {spec}}}"
    assert list_approvals(stage_text("s", first, ASK, ROLL)) == [["ask"] * count]


def test_the_steps_that_do_not_deploy_only_ask_wait_watch_or_plan() -> None:
    assert {type_ for type_, kind in get_step_kinds().items() if not kind.deploys} == {
        "DelegateConnect",
        "HarnessApproval",
        "Http",
        "TerraformPlan",
        "TerragruntPlan",
        "Verify",
        "Wait",
    }


@pytest.mark.parametrize(
    ("when", "counted"),
    [
        ("{}", ["ask"]),
        ("{pipelineStatus: Success}", ["ask"]),
        ("{pipelineStatus: All}", []),
        ("{pipelineStatus: Failure}", []),
    ],
)
def test_an_approval_of_an_earlier_stage_counts_for_stages_that_need_success(
    when: str, counted: list[str]
) -> None:
    later = stage_text("later", ROLL, when=when)
    assert list_approvals(stage_text("first", ASK), later) == [["ask"], counted]


@pytest.mark.parametrize(("status", "counted"), [("Success", ["ask"]), ("All", []), ("Failure", [])])
@pytest.mark.parametrize(
    "step",
    [
        "step: {identifier: roll, type: EcsRollingDeploy, when: {stageStatus: STATUS}}",
        f"stepGroup: {{identifier: g, name: G, when: {{stageStatus: STATUS}}, steps: [{{{ROLL}}}]}}",
    ],
)
def test_an_approval_counts_for_steps_and_groups_that_need_success(
    step: str, status: str, counted: list[str]
) -> None:
    assert list_approvals(stage_text("s", ASK, step.replace("STATUS", status))) == [counted]
