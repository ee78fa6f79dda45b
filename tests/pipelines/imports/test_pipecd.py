"""Applications of PipeCD become a service and a pipeline, stage by stage."""

from typing import Any

import pytest
import yaml

from pipelines.definition.parser import PipelineSpec, parse_pipeline
from pipelines.imports.proposals import ImportProposal, build_proposal
from pipelines.imports.source_files import ImportRefused
from tests.pipelines.imports.sample_projects import (
    BALANCER,
    PIPECD_CONFIG,
    SERVICE_DEFINITION,
    TARGET_GROUP,
    import_spec,
    pipecd_files,
)

TARGET_GROUPS = f"""    targetGroups:
      primary: {{targetGroupArn: {TARGET_GROUP}, containerName: web, containerPort: 80}}
      canary: {{targetGroupArn: {TARGET_GROUP}2, containerName: web, containerPort: 80}}
"""


def propose(files: dict[str, str], **more: Any) -> ImportProposal:
    return build_proposal(import_spec(files, "pipecd", **more))


def propose_stages(*stages: str, groups: bool = False, **more: Any) -> ImportProposal:
    config = PIPECD_CONFIG + (TARGET_GROUPS if groups else "") + "  pipeline:\n    stages:\n"
    return propose(pipecd_files(config + "".join(f"      - {stage}\n" for stage in stages)), **more)


def parse(proposal: ImportProposal) -> PipelineSpec:
    return parse_pipeline(proposal.pipeline)


def types(proposal: ImportProposal) -> list[str]:
    return [step.type for step in parse(proposal).stages[0].steps]


def messages(proposal: ImportProposal) -> list[str]:
    return [str(notice) for notice in proposal.notices]


def refusal(files: dict[str, str], **more: Any) -> str:
    with pytest.raises(ImportRefused) as refused:
        propose(files, **more)
    return str(refused.value.errors[0]["message"])


def test_a_quick_sync_is_a_rolling_deployment() -> None:
    proposal = propose(pipecd_files())
    assert (proposal.identifier, proposal.region, proposal.cluster) == ("shop", "us-east-1", "demo")
    assert types(proposal) == ["EcsChangeController", "EcsRollingDeploy"]
    assert (proposal.service.image, proposal.service.tag) == ("nginx", "1.27")
    definition = yaml.safe_load(proposal.service.manifests[1].content)
    assert "deploymentController" not in definition
    assert any("deploymentController EXTERNAL is removed" in message for message in messages(proposal))


def test_a_canary_without_traffic_is_a_canary_deployment_with_its_waits_and_approvals() -> None:
    proposal = propose_stages(
        "{name: ECS_CANARY_ROLLOUT, with: {scale: 30}}",
        "{name: WAIT, with: {duration: 1h30m}}",
        "{name: WAIT_APPROVAL, with: {approvers: [anna], minApproverNum: 2, timeout: 6h}}",
        "{name: ECS_PRIMARY_ROLLOUT}",
        "{name: ECS_CANARY_CLEAN}",
        approver_group="approvers",
    )
    assert types(proposal) == [
        "EcsChangeController",
        "EcsCanaryDeploy",
        "Wait",
        "HarnessApproval",
        "EcsRollingDeploy",
        "EcsCanaryDelete",
    ]
    wait, approval = parse(proposal).stages[0].steps[2:4]
    assert wait.spec == {"duration": "5400s"}
    assert approval.spec["approvers"] == {"userGroups": ["approvers"], "minimumCount": 2}
    text = "\n".join(messages(proposal))
    for part in ("starts one task", "any member of approvers", "with.timeout is not imported"):
        assert part in text


def test_traffic_in_parts_is_blue_green_with_shifts() -> None:
    proposal = propose_stages(
        "{name: ECS_CANARY_ROLLOUT, with: {scale: 50}}",
        "{name: ECS_TRAFFIC_ROUTING, with: {canary: 20}}",
        "{name: WAIT, with: {duration: 5m}}",
        '{name: ECS_TRAFFIC_ROUTING, with: {primary: "40%"}}',
        "{name: ECS_PRIMARY_ROLLOUT}",
        "{name: ECS_TRAFFIC_ROUTING, with: {primary: 100}}",
        "{name: ECS_CANARY_CLEAN}",
        groups=True,
    )
    assert types(proposal) == [
        "EcsBlueGreenCreateService",
        "EcsBlueGreenTrafficShift",
        "Wait",
        "EcsBlueGreenTrafficShift",
        "EcsBlueGreenSwapTargetGroups",
    ]
    steps = parse(proposal).stages[0].steps
    assert [steps[number].spec["steps"] for number in (1, 3)] == [[{"weight": 20}], [{"weight": 60}]]
    assert [step.type for step in parse(proposal).stages[0].rollback_steps] == ["EcsBlueGreenRollback"]
    definition = yaml.safe_load(proposal.service.manifests[1].content)
    assert definition["loadBalancers"] == [{**BALANCER, "targetGroupArn": "<+targetGroupArn>"}]
    assert "deploymentCircuitBreaker" not in definition["deploymentConfiguration"]
    text = "\n".join(messages(proposal))
    for part in ("canary target group", "ECS_CANARY_CLEAN: not needed", "ECS_TRAFFIC_ROUTING: not needed"):
        assert part in text


def test_all_traffic_at_once_is_a_swap() -> None:
    proposal = propose_stages(
        "{name: ECS_CANARY_ROLLOUT, with: {scale: 100}}",
        "{name: ECS_TRAFFIC_ROUTING, with: {canary: 100}}",
        "{name: ECS_PRIMARY_ROLLOUT}",
        groups=True,
    )
    assert types(proposal) == ["EcsBlueGreenCreateService", "EcsBlueGreenSwapTargetGroups"]


def test_a_stage_without_an_equal_is_listed_with_its_line() -> None:
    proposal = propose_stages(
        "{name: ECS_SYNC}",
        "{name: ANALYSIS, with: {duration: 10m}}",
        "{name: SCRIPT_RUN, with: {run: make smoke}}",
        "{name: K8S_SYNC}",
    )
    assert types(proposal) == ["EcsChangeController", "EcsRollingDeploy"]
    text = "\n".join(messages(proposal))
    line = len(PIPECD_CONFIG.splitlines()) + 4
    assert f"app.pipecd.yaml, line {line}: ANALYSIS: its queries have no equal; add a Verify step" in text
    assert f"line {line + 1}: SCRIPT_RUN: add a Shell Script step" in text
    assert f"line {line + 2}: K8S_SYNC: has no equal" in text


def test_settings_without_an_equal_are_listed() -> None:
    config = (
        PIPECD_CONFIG + "    autoRollback: false\n  trigger: {onCommit: {}}\n  eventWatcher: []\n  other: 1\n"
    )
    text = "\n".join(messages(propose(pipecd_files(config))))
    for part in ("autoRollback false", "trigger: add a trigger", "eventWatcher", "other: is unknown"):
        assert part in text


def test_target_groups_beside_load_balancers_are_listed() -> None:
    service = {
        **SERVICE_DEFINITION,
        "serviceName": "shop",
        "loadBalancers": [{**BALANCER, "containerPort": 81}],
    }
    task_port = pipecd_files(PIPECD_CONFIG + TARGET_GROUPS, service)
    task_port["taskdef.json"] = task_port["taskdef.json"].replace("80", "81")
    text = "\n".join(messages(propose(task_port)))
    assert "line 10: the primary target group is left out" in text
    assert "line 11: the canary target group" in text


def test_an_approval_needs_a_group_of_slipway() -> None:
    config = f"{PIPECD_CONFIG}  pipeline: {{stages: [{{name: WAIT_APPROVAL}}]}}\n"
    assert "line 9: WAIT_APPROVAL: enter the user group" in refusal(pipecd_files(config))


def test_traffic_without_one_target_group_is_refused() -> None:
    stage = "{name: ECS_TRAFFIC_ROUTING, with: {canary: 20}}"
    config = f"{PIPECD_CONFIG}  pipeline: {{stages: [{stage}]}}\n"
    assert "one target group" in refusal(pipecd_files(config))


def test_the_cluster_of_the_service_definition_counts_without_another() -> None:
    config = PIPECD_CONFIG.replace("    clusterArn: arn:aws:ecs:us-east-1:123456789012:cluster/demo\n", "")
    arn = "arn:aws:ecs:eu-west-1:123456789012:cluster/other"
    service = {**SERVICE_DEFINITION, "serviceName": "shop", "cluster": arn}
    proposal = propose(pipecd_files(config, service))
    assert (proposal.region, proposal.cluster) == ("eu-west-1", "other")


@pytest.mark.parametrize(
    "config",
    [
        PIPECD_CONFIG.replace("ECSApp", "KubernetesApp"),
        PIPECD_CONFIG.replace("    serviceDefinitionFile: servicedef.yaml\n", ""),
        PIPECD_CONFIG.replace("taskdef.json", "../../taskdef.json"),
        "kind: ECSApp\nspec: []\n",
        "kind: ECSApp\nspec: {input: x}\n",
        PIPECD_CONFIG + "  pipeline: {stages: [x]}\n",
        PIPECD_CONFIG + "    targetGroups: {primary: [1]}\n",
        PIPECD_CONFIG + f"  pipeline: {{stages: [{'{name: ECS_SYNC}, ' * 101}]}}\n",
        PIPECD_CONFIG + "  pipeline: {stages: [{name: WAIT, with: {duration: forever}}]}\n",
        PIPECD_CONFIG + "  pipeline: {stages: [{name: WAIT_APPROVAL, with: {minApproverNum: many}}]}\n",
    ],
)
def test_a_malformed_application_is_refused(config: str) -> None:
    assert refusal(pipecd_files(config), approver_group="approvers")
