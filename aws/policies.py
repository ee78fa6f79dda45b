"""IAM policies for a connector's principal, with the purpose of each action.

`BASE` is the policy of R145, its eighteen actions as they are documented (purposes: R146); what some features
need beyond it (T12) are policies of their own, to be attached where the feature is used.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class IamPolicy:
    """Actions by name, each with the reason for which it is needed."""

    identifier: str
    title: str
    description: str
    action_purposes: Mapping[str, str]

    @property
    def actions(self) -> tuple[str, ...]:
        return tuple(self.action_purposes)

    @property
    def document(self) -> dict[str, Any]:
        """The policy as IAM takes it."""
        statement = {"Effect": "Allow", "Action": list(self.action_purposes), "Resource": "*"}
        return {"Version": "2012-10-17", "Statement": [statement]}


BASE_POLICY = IamPolicy(
    "ecs",
    "Deploy to ECS",
    "What every deployment and the pickers of clusters and images need.",
    {
        "ecr:DescribeRepositories": "Lists the repositories that an image can be chosen from.",
        "ecs:ListClusters": "Fills the list of clusters of an infrastructure, and keeps what runs in sync.",
        "ecs:ListServices": "Lists the ECS services of a cluster.",
        "ecs:DescribeServices": "Reads an ECS service before, during and after a deployment.",
        "ecr:ListImages": "Lists the tags that can be deployed.",
        "ecr:DescribeImages": "Tells the age and the digest of an image.",
        "ecs:RegisterTaskDefinition": "Registers the new revision of a task definition.",
        "ecs:CreateService": "Creates the ECS service at its first deployment.",
        "ecs:ListTasks": "Finds the tasks of a service, and the revision that they run.",
        "ecs:DescribeTasks": "Tells why a task stopped and whether it is healthy.",
        "ecs:DeleteService": "Deletes what a rollback, a canary or blue/green leaves behind.",
        "ecs:UpdateService": "Points the ECS service to the new revision, and back again.",
        "ecs:DescribeContainerInstances": "Tells which image runs on which machine.",
        "ecs:DescribeTaskDefinition": "Reads the revision that a rollback brings back.",
        "application-autoscaling:DescribeScalableTargets": "Reads what scales a service. "
        "Not needed where no service scales.",
        "application-autoscaling:DescribeScalingPolicies": "Reads the policies that scale a service. "
        "Not needed where no service scales.",
        "iam:ListRoles": "Lists the roles that a task can run with.",
        "iam:PassRole": "Hands the roles of a task definition to ECS.",
    },
)

EXTENSION_POLICIES = (
    IamPolicy(
        "tags",
        "Tags and clean revisions",
        "Marks what Slipway makes, so that a lost answer is found again, and removes unused revisions.",
        {
            "ecs:TagResource": "Marks a revision or a service with the deployment that made it.",
            "ecs:UntagResource": "Takes such a mark away again.",
            "ecs:ListTagsForResource": "Reads the marks, such as which service is blue and which is green.",
            "ecs:DeregisterTaskDefinition": "Makes a revision inactive that a rollback left unused.",
            "ecs:DescribeClusters": "Tells whether a cluster is there before something is deployed to it.",
        },
    ),
    IamPolicy(
        "blue-green",
        "Blue/green and load balancers",
        "Moves the traffic of a listener or a rule from one target group to the other.",
        {
            "elasticloadbalancing:DescribeLoadBalancers": "Lists the load balancers to choose from.",
            "elasticloadbalancing:DescribeListeners": "Reads where a listener sends its traffic now.",
            "elasticloadbalancing:DescribeRules": "Reads the rules of a listener with their conditions.",
            "elasticloadbalancing:DescribeTargetGroups": "Reads the port and the health check of a group.",
            "elasticloadbalancing:DescribeTargetHealth": "Waits until the new targets are healthy, and shows "
            "on the dashboard of a service which are not.",
            "elasticloadbalancing:ModifyListener": "Swaps the traffic of a listener's default rule.",
            "elasticloadbalancing:ModifyRule": "Swaps the traffic of any other rule.",
        },
    ),
    IamPolicy(
        "run-task",
        "Run tasks",
        "Runs tasks that do a job and end, such as migrations.",
        {
            "ecs:RunTask": "Starts the tasks.",
            "ecs:StopTask": "Stops them when the step is aborted or takes too long.",
        },
    ),
    IamPolicy(
        "auto-scaling",
        "Auto scaling",
        "Pauses scaling during a deployment and attaches what the manifests say.",
        {
            "application-autoscaling:RegisterScalableTarget": "Attaches, suspends and resumes scaling.",
            "application-autoscaling:DeregisterScalableTarget": "Removes the scaling of a service.",
            "application-autoscaling:PutScalingPolicy": "Attaches a scaling policy.",
            "application-autoscaling:DeleteScalingPolicy": "Removes a scaling policy.",
            "application-autoscaling:DescribeScalingActivities": "Tells the tasks that scaling has started "
            "from all others.",
            "cloudwatch:PutMetricAlarm": "Target tracking keeps alarms of its own.",
            "cloudwatch:DescribeAlarms": "Target tracking keeps alarms of its own.",
            "cloudwatch:DeleteAlarms": "The alarms of a policy go with it.",
        },
    ),
    IamPolicy(
        "cloudformation",
        "CloudFormation stacks",
        "Makes the infrastructure of a stage from a template. What the template makes needs rights of its "
        "own, or a role that CloudFormation takes on.",
        {
            "cloudformation:CreateStack": "Makes a stack where there is none.",
            "cloudformation:UpdateStack": "Brings a stack to another template, and back again.",
            "cloudformation:DeleteStack": "Deletes a stack, such as one that a run made and takes back.",
            "cloudformation:DescribeStacks": "Reads how a stack stands, and its outputs.",
            "cloudformation:DescribeStackEvents": "Shows what happens to each resource.",
            "cloudformation:GetTemplate": "Remembers the template to which a rollback goes back.",
            "cloudformation:CancelUpdateStack": "Ends an update when the run is aborted.",
            "cloudformation:ContinueUpdateRollback": "Goes on where the way back of an update had failed.",
        },
    ),
    IamPolicy(
        "verify",
        "Alarms and metrics",
        "Watches CloudWatch after a deployment, fails when an alarm rings, and shows what a service uses.",
        {
            "cloudwatch:DescribeAlarms": "Tells how an alarm stands.",
            "cloudwatch:GetMetricData": "Reads the values of metrics, and CPU and memory for the dashboard "
            "of a service.",
        },
    ),
    IamPolicy(
        "logs",
        "Logs of containers",
        "Shows what a container said before it failed, and what a task prints.",
        {
            "logs:GetLogEvents": "Reads the last lines of a container.",
            "logs:FilterLogEvents": "Searches the lines of a container.",
            "logs:DescribeLogGroups": "Tells whether the log group is there.",
        },
    ),
    IamPolicy(
        "deployments",
        "ECS's own record of deployments",
        "Tells whether AWS itself ended or rolled back a deployment.",
        {
            "ecs:ListServiceDeployments": "Lists what was deployed to a service.",
            "ecs:DescribeServiceDeployments": "Tells how one of them ended.",
        },
    ),
)

POLICIES = (BASE_POLICY, *EXTENSION_POLICIES)


def list_policies(actions: Iterable[str]) -> tuple[IamPolicy, ...]:
    """`BASE`, and each extension that holds one of the actions."""
    needed = set(actions)
    return (BASE_POLICY, *(one for one in EXTENSION_POLICIES if needed & one.action_purposes.keys()))


def get_action_purpose(action: str) -> str:
    """Why an action is needed; empty if no policy knows it."""
    return next((one.action_purposes[action] for one in POLICIES if action in one.action_purposes), "")


def get_policy_title(action: str) -> str:
    """The title of the policy that holds an action; empty if none does."""
    return next((one.title for one in POLICIES if action in one.action_purposes), "")


def get_policy(identifier: str) -> IamPolicy | None:
    """The policy of this name."""
    return next((one for one in POLICIES if one.identifier == identifier), None)
