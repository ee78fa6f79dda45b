"""The AWS operations that a delegate makes: those of the policy (R145) and of its extension (T12)."""

from collections.abc import Set

from aws.names import iam_action

# R145; iam:PassRole is a permission and no operation.
DOCUMENTED = {
    "ecr": ("DescribeImages", "DescribeRepositories", "ListImages"),
    "ecs": (
        "CreateService",
        "DeleteService",
        "DescribeContainerInstances",
        "DescribeServices",
        "DescribeTaskDefinition",
        "DescribeTasks",
        "ListClusters",
        "ListServices",
        "ListTasks",
        "RegisterTaskDefinition",
        "UpdateService",
    ),
    "application-autoscaling": ("DescribeScalableTargets", "DescribeScalingPolicies"),
    "iam": ("ListRoles",),
}
# T12: what blue/green, run task, auto scaling, tags and watching need beside.
EXTENDED = {
    "ecs": (
        "DeregisterTaskDefinition",
        "DescribeClusters",
        "DescribeServiceDeployments",
        "DescribeServiceRevisions",
        "ListServiceDeployments",
        "ListTagsForResource",
        "ListTaskDefinitions",
        "RunTask",
        "StopServiceDeployment",
        "StopTask",
        "TagResource",
        "UntagResource",
    ),
    "elbv2": (
        "DescribeListeners",
        "DescribeLoadBalancers",
        "DescribeRules",
        "DescribeTargetGroups",
        "DescribeTargetHealth",
        "ModifyListener",
        "ModifyRule",
    ),
    "application-autoscaling": (
        "DeleteScalingPolicy",
        "DeregisterScalableTarget",
        "DescribeScalingActivities",
        "PutScalingPolicy",
        "RegisterScalableTarget",
    ),
    "cloudformation": (
        "CancelUpdateStack",
        "ContinueUpdateRollback",
        "CreateStack",
        "DeleteStack",
        "DescribeStackEvents",
        "DescribeStacks",
        "GetTemplate",
        "UpdateStack",
    ),
    "cloudwatch": ("DescribeAlarms", "GetMetricData", "PutMetricAlarm"),
    "logs": ("DescribeLogGroups", "FilterLogEvents", "GetLogEvents"),
    "iam": ("SimulatePrincipalPolicy",),
    # Manifests that lie in S3 (R156).
    "s3": ("GetObject", "ListObjectsV2"),
    "sts": ("GetCallerIdentity",),
}
ALLOWED = frozenset(
    f"{service}:{operation}"
    for listed in (DOCUMENTED, EXTENDED)
    for service, operations in listed.items()
    for operation in operations
)


def is_allowed(service: str, operation: str, also: Set[str]) -> bool:
    """Whether this delegate makes a call; `also` are more names, as boto3 or as IAM spells the service."""
    return bool({f"{service}:{operation}", iam_action(service, operation)} & (ALLOWED | also))


def refusal(service: str, operation: str) -> str:
    """Why a call was not made, and who can change that."""
    return (
        f"{service}:{operation} is not among the operations of this delegate. Whoever runs it can allow it: "
        f"SLIPWAY_DELEGATE_ALLOW_OPERATIONS={service}:{operation}"
    )
