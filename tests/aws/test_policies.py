"""The policies that are offered for download."""

import re
from pathlib import Path

import aws.apis
from aws.apis.iam import parse_principal_arn
from aws.operations import get_iam_action, list_required_actions
from aws.policies import (
    BASE_POLICY,
    CALLED_ACTIONS,
    EXTENSION_POLICIES,
    POLICIES,
    get_action_purpose,
    list_policies,
)
from delegates.agent.executors.aws import is_allowed_operation

R145 = [
    "ecr:DescribeRepositories",
    "ecs:ListClusters",
    "ecs:ListServices",
    "ecs:DescribeServices",
    "ecr:ListImages",
    "ecr:DescribeImages",
    "ecs:RegisterTaskDefinition",
    "ecs:CreateService",
    "ecs:ListTasks",
    "ecs:DescribeTasks",
    "ecs:DeleteService",
    "ecs:UpdateService",
    "ecs:DescribeContainerInstances",
    "ecs:DescribeTaskDefinition",
    "application-autoscaling:DescribeScalableTargets",
    "application-autoscaling:DescribeScalingPolicies",
    "iam:ListRoles",
    "iam:PassRole",
]
T12 = [
    "elasticloadbalancing:DescribeLoadBalancers",
    "elasticloadbalancing:DescribeListeners",
    "elasticloadbalancing:DescribeRules",
    "elasticloadbalancing:DescribeTargetGroups",
    "elasticloadbalancing:DescribeTargetHealth",
    "elasticloadbalancing:ModifyListener",
    "elasticloadbalancing:ModifyRule",
    "ecs:RunTask",
    "ecs:StopTask",
    "ecs:TagResource",
    "ecs:UntagResource",
    "ecs:ListTagsForResource",
    "ecs:DeregisterTaskDefinition",
    "ecs:DescribeClusters",
    "application-autoscaling:RegisterScalableTarget",
    "application-autoscaling:DeregisterScalableTarget",
    "application-autoscaling:PutScalingPolicy",
    "application-autoscaling:DeleteScalingPolicy",
    "cloudwatch:PutMetricAlarm",
    "cloudwatch:DescribeAlarms",
    "logs:GetLogEvents",
    "logs:FilterLogEvents",
    "logs:DescribeLogGroups",
    "ecs:ListServiceDeployments",
    "ecs:DescribeServiceDeployments",
]


def test_the_first_policy_is_the_documented_one_to_the_letter() -> None:
    assert BASE_POLICY.document["Statement"][0]["Action"] == R145


def test_the_others_hold_all_that_the_documented_one_lacks() -> None:
    extension_actions = {action for policy in EXTENSION_POLICIES for action in policy.actions}
    assert set(T12) <= extension_actions
    assert not extension_actions & set(R145)


def test_every_action_has_a_purpose() -> None:
    assert all(get_action_purpose(action).endswith(".") for policy in POLICIES for action in policy.actions)
    assert get_action_purpose("ec2:RunInstances") == ""


def test_a_delegate_may_send_the_calls_of_the_policies_shown_and_no_other() -> None:
    assert all(is_allowed_operation(*action.split(":"), frozenset()) for action in CALLED_ACTIONS)
    assert is_allowed_operation("s3", "ListObjectsV2", frozenset())
    assert is_allowed_operation("sts", "GetCallerIdentity", frozenset())
    for service, operation in (("iam", "PassRole"), ("cloudwatch", "DeleteAlarms"), ("ec2", "RunInstances")):
        assert not is_allowed_operation(service, operation, frozenset())


_OPERATION = re.compile(
    r'"((?:Cancel|Continue|Create|Delete|Deregister|Describe|Get|List|Modify|Put|Register|Run|Simulate|Stop|Tag'
    r'|Untag|Update)[A-Z]\w+)"'
)


def test_every_call_of_the_clients_is_in_a_policy() -> None:
    sources = [file.read_text() for file in Path(aws.apis.__path__[0]).glob("*.py")]
    operations = {operation for source in sources for operation in _OPERATION.findall(source)}
    named = {action.split(":")[1] for action in CALLED_ACTIONS} | {"GetCallerIdentity"}
    # The actions of these have other names: one allows the single calls and the batch.
    for service, operation in (("sqs", "DeleteMessageBatch"), ("s3", "ListObjectsV2")):
        assert get_iam_action(service, operation) in CALLED_ACTIONS
        named.add(operation)
    assert len(operations) > 40
    assert operations - named == set()


def test_the_action_of_an_operation_is_the_one_that_iam_knows() -> None:
    assert get_iam_action("s3", "ListObjectsV2") == "s3:ListBucket"
    assert get_iam_action("sqs", "DeleteMessageBatch") == "sqs:DeleteMessage"
    assert get_iam_action("elbv2", "DescribeRules") == "elasticloadbalancing:DescribeRules"


def test_only_those_policies_are_named_that_what_is_done_needs() -> None:
    assert [policy.identifier for policy in list_policies(["ecs:UpdateService"])] == ["ecs"]
    assert [policy.identifier for policy in list_policies(["ecs:RunTask", "logs:GetLogEvents"])] == [
        "ecs",
        "run-task",
        "logs",
    ]


def test_a_call_needs_its_own_action_and_what_its_parameters_ask_for() -> None:
    register = ("ecs", "RegisterTaskDefinition", {"executionRoleArn": "r", "tags": [{"key": "a"}]})
    assert list_required_actions([register]) == [
        "ecs:RegisterTaskDefinition",
        "ecs:TagResource",
        "iam:PassRole",
    ]
    assert list_required_actions([("elbv2", "ModifyRule", {}), ("sts", "GetCallerIdentity", {})]) == [
        "elasticloadbalancing:ModifyRule"
    ]
    assert "cloudwatch:PutMetricAlarm" in list_required_actions(
        [("application-autoscaling", "PutScalingPolicy", {})]
    )


def test_the_principal_behind_an_identity_is_a_user_or_a_role() -> None:
    session = "arn:aws:sts::123456789012:assumed-role/deployer/slipway"
    assert parse_principal_arn(session) == "arn:aws:iam::123456789012:role/deployer"
    assert parse_principal_arn("arn:aws:iam::123456789012:user/a/b") == "arn:aws:iam::123456789012:user/a/b"
    assert parse_principal_arn("arn:aws:iam::123456789012:root") == ""
