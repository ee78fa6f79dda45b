"""A preview: what it answers once it was told to write, and what it never sends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from aws.apis.ecs import EcsClient
from aws.apis.elb import ElbClient
from aws.apis.scaling import ScalingClient
from aws.errors import NotFound
from aws.preview import ExistsOnlyInPreview, PreviewCaller, PreviewLimitReached, ReadBudget

SERVICE = {
    "serviceArn": "arn:aws:ecs:us-east-1:1:service/demo/myapp",
    "serviceName": "myapp",
    "status": "ACTIVE",
    "taskDefinition": "arn:aws:ecs:us-east-1:1:task-definition/f:3",
    "desiredCount": 2,
    "runningCount": 1,
    "deployments": [{"id": "ecs-svc/1", "status": "PRIMARY", "desiredCount": 2}],
}
LISTENER = "arn:aws:elasticloadbalancing:us-east-1:1:listener/app/lb/1/2"
RULE = "arn:aws:elasticloadbalancing:us-east-1:1:listener-rule/app/lb/1/2/3"


@dataclass
class Account:
    """An account with one answer for each operation; everything else does not exist."""

    answers: Mapping[str, Any]
    operations: list[str] = field(default_factory=list)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.operations.append(operation)
        if operation not in self.answers:
            raise NotFound("NotFoundException", "", service, operation)
        answer: dict[str, Any] = self.answers[operation]
        return answer


def test_an_updated_service_is_shown_as_it_will_be_and_nothing_is_written() -> None:
    account = Account({"DescribeServices": {"services": [SERVICE]}})
    preview = PreviewCaller(account)
    ecs = EcsClient(preview)
    registered = ecs.register_task_definition({"family": "f", "containerDefinitions": []})
    updated = ecs.update_service("demo", "myapp", {"taskDefinition": registered.arn, "desiredCount": 3})
    service = ecs.describe_service("demo", "myapp")
    assert registered.arn == "<taskDefinitionArn of RegisterTaskDefinition 1>"
    assert updated.primary is not None
    assert service is not None
    assert (updated.primary.task_definition, updated.primary.desired) == (registered.arn, 3)
    assert (service.arn, service.desired, service.running) == (SERVICE["serviceArn"], 3, 3)
    assert service.primary == updated.primary
    assert [write.operation for write in preview.writes] == ["RegisterTaskDefinition", "UpdateService"]
    assert preview.writes[1].before["desiredCount"] == 2
    assert set(account.operations) == {"DescribeTaskDefinition", "DescribeServices"}


def test_a_change_of_the_count_alone_begins_no_deployment() -> None:
    ecs = EcsClient(PreviewCaller(Account({"DescribeServices": {"services": [SERVICE]}})))
    updated = ecs.update_service("demo", "myapp", {"desiredCount": 5})
    assert updated.primary is not None
    assert (updated.primary.id, updated.primary.running) == ("ecs-svc/1", 5)


def test_a_created_service_is_found_by_name_and_by_arn_and_is_gone_once_deleted() -> None:
    account = Account({"DescribeServices": {"services": []}})
    ecs = EcsClient(PreviewCaller(account))
    created_service = ecs.create_service(
        {"serviceName": "new", "desiredCount": 1}, cluster="demo", client_token="t"
    )
    assert ecs.describe_service("demo", "new") == created_service
    assert created_service.is_active
    assert created_service.running == 1
    assert ecs.list_tasks("demo", "new") == ["<task 1 of new>"]
    ecs.delete_service("demo", "new", force=True)
    service = ecs.describe_service("demo", "new")
    assert service is not None
    assert service.status == "INACTIVE"
    assert account.operations == []


def test_a_registered_task_definition_is_the_newest_of_its_family() -> None:
    newest = {"taskDefinition": {"family": "f", "revision": 3, "taskDefinitionArn": "f:3"}}
    ecs = EcsClient(PreviewCaller(Account({"DescribeTaskDefinition": newest})))
    definition = ecs.register_task_definition({"family": "f", "cpu": "256"}, tags={"a": "b"})
    assert (ecs.get_latest_revision("f"), definition.revision) == (4, 4)
    assert ecs.describe_task_definition(definition.arn, with_tags=True).tags == {"a": "b"}
    ecs.deregister_task_definition(definition.arn)
    assert ecs.get_latest_revision("f") == 3


def test_a_task_that_would_run_has_ended_well() -> None:
    preview = PreviewCaller(Account({}))
    ecs = EcsClient(preview)
    definition = ecs.register_task_definition({"family": "f", "containerDefinitions": [{"name": "app"}]})
    answer = preview.call("ecs", "RunTask", {"cluster": "demo", "taskDefinition": definition.arn, "count": 2})
    tasks = ecs.describe_tasks("demo", [task["taskArn"] for task in answer["tasks"]])
    assert [(task.last_status, task.containers[0].exit_code) for task in tasks] == [("STOPPED", 0)] * 2


def test_tags_are_shown_as_they_will_be() -> None:
    ecs = EcsClient(PreviewCaller(Account({"ListTagsForResource": {"tags": [{"key": "a", "value": "1"}]}})))
    ecs.add_tags("arn", {"b": "2"})
    ecs.remove_tags("arn", ["a"])
    assert ecs.list_tags("arn") == {"b": "2"}


def _forward(group: str) -> list[dict[str, str]]:
    return [{"Type": "forward", "TargetGroupArn": group}]


def test_a_changed_listener_shows_its_new_target_also_as_its_default_rule() -> None:
    rules = [
        {"RuleArn": RULE, "IsDefault": True, "Actions": _forward("old")},
        {"RuleArn": RULE + "4", "IsDefault": False, "Actions": _forward("old")},
    ]
    listener = {"ListenerArn": LISTENER, "Port": 80, "DefaultActions": _forward("old")}
    preview = PreviewCaller(
        Account({"DescribeListeners": {"Listeners": [listener]}, "DescribeRules": {"Rules": rules}})
    )
    preview.call("elbv2", "ModifyListener", {"ListenerArn": LISTENER, "DefaultActions": _forward("new")})
    listeners = preview.call("elbv2", "DescribeListeners", {"ListenerArns": [LISTENER]})["Listeners"]
    assert (listeners[0]["DefaultActions"], listeners[0]["Port"]) == (_forward("new"), 80)
    updated_rules = preview.call("elbv2", "DescribeRules", {"ListenerArn": LISTENER})["Rules"]
    assert [rule["Actions"] for rule in updated_rules] == [_forward("new"), _forward("old")]
    assert preview.writes[0].before["DefaultActions"] == _forward("old")


def test_the_targets_of_a_service_that_would_be_created_are_healthy() -> None:
    preview = PreviewCaller(Account({"DescribeTargetHealth": {"TargetHealthDescriptions": []}}))
    definition = {"serviceName": "green", "desiredCount": 2, "loadBalancers": [{"targetGroupArn": "tg"}]}
    EcsClient(preview).create_service(definition, cluster="demo", client_token="t")
    assert [target.state for target in ElbClient(preview).list_target_health("tg")] == ["healthy", "healthy"]
    assert ElbClient(preview).list_target_health("other") == []


def test_scaling_is_shown_as_it_will_be() -> None:
    place = {
        "ServiceNamespace": "ecs",
        "ResourceId": "service/demo/a",
        "ScalableDimension": "ecs:service:DesiredCount",
    }
    target = {**place, "MinCapacity": 1, "MaxCapacity": 4}
    policy = {**place, "PolicyName": "old", "PolicyType": "StepScaling"}
    answers = {
        "DescribeScalableTargets": {"ScalableTargets": [target]},
        "DescribeScalingPolicies": {"ScalingPolicies": [policy]},
    }
    scaling = ScalingClient(PreviewCaller(Account(answers)))
    (before,) = scaling.list_targets("demo", "a")
    scaling.suspend(before)
    (after,) = scaling.list_targets("demo", "a")
    assert all(after.suspended.values())
    assert (after.min_capacity, after.max_capacity) == (1, 4)
    scaling.put_policy("demo", "a", {"PolicyName": "new", "PolicyType": "StepScaling"})
    scaling.delete_policy("demo", "a", "old")
    assert [scaling_policy.name for scaling_policy in scaling.list_policies("demo", "a")] == ["new"]
    scaling.deregister_target("demo", "a")
    assert scaling.list_targets("demo", "a") == scaling.list_policies("demo", "a") == []


def test_what_is_only_planned_is_not_asked_for() -> None:
    account = Account({"DescribeTasks": {}})
    preview = PreviewCaller(account)
    with pytest.raises(ExistsOnlyInPreview):
        preview.call("ecs", "DescribeTasks", {"tasks": [preview.create_placeholder("task")]})
    assert account.operations == []


def test_a_preview_stops_at_its_number_of_calls_and_at_its_time() -> None:
    account = Account({"ListClusters": {}})
    few = PreviewCaller(account, ReadBudget(calls=1, seconds=60))
    few.call("ecs", "ListClusters", {})
    with pytest.raises(PreviewLimitReached, match="limit of AWS calls"):
        few.call("ecs", "ListClusters", {})
    times = iter([0.0, 0.0, 31.0])
    slow = PreviewCaller(account, ReadBudget(calls=9, seconds=30, monotonic=lambda: next(times)))
    slow.call("ecs", "ListClusters", {})
    with pytest.raises(PreviewLimitReached, match="30 seconds"):
        slow.call("ecs", "ListClusters", {})
