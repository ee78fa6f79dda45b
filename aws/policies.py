"""IAM policies for a connector's principal, with the purpose of each action.

`BASE` is the policy of R145 with its eighteen documented actions (purposes: R146). Features that need more
(T12) have their own policies, to attach where the feature is used.
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
        """Return the policy as IAM takes it."""
        statement = {"Effect": "Allow", "Action": list(self.action_purposes), "Resource": "*"}
        return {"Version": "2012-10-17", "Statement": [statement]}


BASE_POLICY = IamPolicy(
    "ecs",
    "Deploy to ECS",
    "Required for every deployment and to list clusters and images.",
    {
        "ecr:DescribeRepositories": "Lists image repositories.",
        "ecs:ListClusters": "Lists clusters and syncs the inventory.",
        "ecs:ListServices": "Lists the ECS services of a cluster.",
        "ecs:DescribeServices": "Reads an ECS service before, during and after a deployment.",
        "ecr:ListImages": "Lists image tags.",
        "ecr:DescribeImages": "Reads the push time and digest of an image.",
        "ecs:RegisterTaskDefinition": "Registers the new revision of a task definition.",
        "ecs:CreateService": "Creates the ECS service in the first deployment.",
        "ecs:ListTasks": "Lists the tasks of a service and their revision.",
        "ecs:DescribeTasks": "Reads the stopped reason and health of a task.",
        "ecs:DeleteService": "Deletes services that a deployment left, and those of EcsDeleteService steps.",
        "ecs:UpdateService": "Updates the ECS service to the new revision, and rolls it back.",
        "ecs:DescribeContainerInstances": "Reads the EC2 hosts of tasks.",
        "ecs:DescribeTaskDefinition": "Reads the revision that a rollback restores.",
        "application-autoscaling:DescribeScalableTargets": "Reads the scalable target of a service. "
        "Optional without auto scaling.",
        "application-autoscaling:DescribeScalingPolicies": "Reads the scaling policies of a service. "
        "Optional without auto scaling.",
        "iam:ListRoles": "Lists task roles.",
        "iam:PassRole": "Passes the roles of a task definition to ECS.",
    },
)

EXTENSION_POLICIES = (
    IamPolicy(
        "tags",
        "Tags and clean revisions",
        "Tags resources that Slipway creates, so that lost responses can be confirmed, and removes unused "
        "revisions.",
        {
            "ecs:TagResource": "Tags a revision or a service with the deployment that created it.",
            "ecs:UntagResource": "Removes such a tag.",
            "ecs:ListTagsForResource": "Reads the tags, such as which service is blue and which is green.",
            "ecs:DeregisterTaskDefinition": "Deregisters a revision that a rollback left unused.",
            "ecs:DescribeClusters": "Verifies that the cluster exists before a deployment.",
        },
    ),
    IamPolicy(
        "blue-green",
        "Blue/green and load balancers",
        "Moves the traffic of a listener or a rule from one target group to the other.",
        {
            "elasticloadbalancing:DescribeLoadBalancers": "Lists load balancers.",
            "elasticloadbalancing:DescribeListeners": "Reads the target groups of a listener.",
            "elasticloadbalancing:DescribeRules": "Reads the rules of a listener with their conditions.",
            "elasticloadbalancing:DescribeTargetGroups": "Reads the port and the health check of a group.",
            "elasticloadbalancing:DescribeTargetHealth": "Reads target health during a deployment and for "
            "the service dashboard.",
            "elasticloadbalancing:ModifyListener": "Swaps the traffic of a listener's default rule.",
            "elasticloadbalancing:ModifyRule": "Swaps the traffic of any other rule.",
        },
    ),
    IamPolicy(
        "run-task",
        "Run tasks",
        "Runs standalone tasks, such as migrations.",
        {
            "ecs:RunTask": "Starts the tasks.",
            "ecs:StopTask": "Stops them when the step is aborted or times out.",
        },
    ),
    IamPolicy(
        "auto-scaling",
        "Auto scaling",
        "Suspends scaling during a deployment and applies the manifests.",
        {
            "application-autoscaling:RegisterScalableTarget": "Attaches, suspends and resumes scaling.",
            "application-autoscaling:DeregisterScalableTarget": "Removes the scaling of a service.",
            "application-autoscaling:PutScalingPolicy": "Attaches a scaling policy.",
            "application-autoscaling:DeleteScalingPolicy": "Removes a scaling policy.",
            "application-autoscaling:DescribeScalingActivities": "Identifies tasks that auto scaling "
            "started.",
            "cloudwatch:PutMetricAlarm": "Target tracking creates its own alarms.",
            "cloudwatch:DescribeAlarms": "Target tracking creates its own alarms.",
            "cloudwatch:DeleteAlarms": "Deletes the alarms of a policy.",
        },
    ),
    IamPolicy(
        "cloudformation",
        "CloudFormation stacks",
        "Creates the infrastructure of a stage from a template. The resources of the template need their "
        "own permissions, or a CloudFormation service role.",
        {
            "cloudformation:CreateStack": "Creates a stack.",
            "cloudformation:UpdateStack": "Updates a stack, and rolls it back.",
            "cloudformation:DeleteStack": "Deletes a stack, for example in a rollback.",
            "cloudformation:DescribeStacks": "Reads the status and outputs of a stack.",
            "cloudformation:DescribeStackEvents": "Reads the events of each resource.",
            "cloudformation:GetTemplate": "Reads the template to restore in a rollback.",
            "cloudformation:CancelUpdateStack": "Cancels an update when the run is aborted.",
            "cloudformation:ContinueUpdateRollback": "Continues a failed update rollback.",
        },
    ),
    IamPolicy(
        "verify",
        "Alarms and metrics",
        "Monitors CloudWatch after a deployment, fails on an alarm, and shows the utilization of a service.",
        {
            "cloudwatch:DescribeAlarms": "Reads the state of an alarm.",
            "cloudwatch:GetMetricData": "Reads the values of metrics, and CPU and memory for the dashboard "
            "of a service.",
        },
    ),
    IamPolicy(
        "logs",
        "Logs of containers",
        "Shows the last log lines of a failed container and the output of tasks.",
        {
            "logs:GetLogEvents": "Reads the last lines of a container.",
            "logs:FilterLogEvents": "Searches the lines of a container.",
            "logs:DescribeLogGroups": "Verifies that the log group exists.",
        },
    ),
    IamPolicy(
        "image-events",
        "Events of ECS and of pushed images",
        "Reads the queues to which EventBridge sends the events of ECS, and the pushes to Amazon ECR.",
        {
            "sqs:ReceiveMessage": "Receives the events.",
            "sqs:DeleteMessage": "Deletes an event once it is stored.",
        },
    ),
    IamPolicy(
        "event-setup",
        "Set up events",
        "Lets CloudFormation create the queue of events with its rules, and delete them after a failure. "
        "Required with the policy CloudFormation, only while events are set up.",
        {
            "sqs:CreateQueue": "Creates the queue, and the one of events that could not be read.",
            "sqs:GetQueueUrl": "Reads the URL of a queue.",
            "sqs:GetQueueAttributes": "Reads the ARN of a queue.",
            "sqs:SetQueueAttributes": "Allows the rules to send to the queue.",
            "sqs:ListQueueTags": "Reads the tags of a queue.",
            "sqs:TagQueue": "Tags the queues with the set-up that created them.",
            "sqs:DeleteQueue": "Deletes the queues if the stack cannot be created.",
            "events:PutRule": "Creates the rules.",
            "events:PutTargets": "Lets the rules send to the queue.",
            "events:DescribeRule": "Reads the ARN of a rule.",
            "events:ListTargetsByRule": "Reads the targets of a rule.",
            "events:TagResource": "Tags the rules with the set-up that created them.",
            "events:RemoveTargets": "Removes the targets if the stack cannot be created.",
            "events:DeleteRule": "Deletes the rules if the stack cannot be created.",
        },
    ),
    IamPolicy(
        "deployments",
        "ECS service deployments",
        "Detects deployments that AWS stopped or rolled back. Follows and stops deployments that ECS runs "
        "itself.",
        {
            "ecs:ListServiceDeployments": "Lists the deployments of a service.",
            "ecs:DescribeServiceDeployments": "Reads stage, traffic and result of a deployment.",
            "ecs:DescribeServiceRevisions": "Reads the revisions that a deployment replaces.",
            "ecs:StopServiceDeployment": "Rolls back a deployment that is under way.",
            "ecs:ContinueServiceDeployment": "Ends a pause of a deployment after its approval.",
        },
    ),
    IamPolicy(
        "managed-instances",
        "Daemons of managed instances",
        "Shows the daemons of clusters with tasks on managed instances. Nothing deploys them.",
        {
            "ecs:ListDaemons": "Lists the daemons of a cluster.",
            "ecs:DescribeDaemon": "Reads the instances on which a daemon runs.",
            "ecs:DescribeDaemonDeployments": "Reads the status of the last deployment of a daemon.",
            "ecs:DescribeDaemonRevisions": "Reads the task definition and images of a daemon.",
        },
    ),
    IamPolicy(
        "manifests-in-s3",
        "Manifests in S3",
        "Reads manifests and templates from buckets.",
        {
            "s3:ListBucket": "Lists the files of a folder.",
            "s3:GetObject": "Reads a file.",
        },
    ),
    IamPolicy(
        "secret-managers",
        "Secret managers",
        "Reads the secrets that refer to Secrets Manager or Parameter Store. Limit the resources to them.",
        {
            "secretsmanager:GetSecretValue": "Reads a secret of Secrets Manager.",
            "ssm:GetParameter": "Reads a parameter of Parameter Store.",
            "kms:Decrypt": "Decrypts values with a key of your own.",
        },
    ),
    IamPolicy(
        "network-options",
        "Network options",
        "Lists the networks that forms offer, and checks their routes.",
        {
            "ec2:DescribeVpcs": "Lists VPCs.",
            "ec2:DescribeSubnets": "Lists subnets with their zones.",
            "ec2:DescribeRouteTables": "Checks that a subnet has a route to the internet.",
            "ec2:DescribeSecurityGroups": "Lists security groups and checks their outbound rules.",
        },
    ),
    IamPolicy(
        "permission-check",
        "Permission check",
        "Reports missing permissions before a deployment needs them.",
        {"iam:SimulatePrincipalPolicy": "Evaluates the policies of the connector's own principal."},
    ),
)

POLICIES = (BASE_POLICY, *EXTENSION_POLICIES)
EVENT_SETUP_POLICY = next(policy for policy in EXTENSION_POLICIES if policy.identifier == "event-setup")
# AWS checks these within other calls; no call of Slipway has such a name.
INDIRECT_ACTIONS = frozenset(
    {"iam:PassRole", "cloudwatch:DeleteAlarms", "kms:Decrypt", *EVENT_SETUP_POLICY.actions}
)
# The only calls that a delegate sends by default, so that the policies shown are the policies needed.
CALLED_ACTIONS = frozenset(action for policy in POLICIES for action in policy.actions) - INDIRECT_ACTIONS


def list_policies(actions: Iterable[str]) -> tuple[IamPolicy, ...]:
    """Return `BASE` and each extension with one of the actions."""
    needed = set(actions)
    return (BASE_POLICY, *(policy for policy in EXTENSION_POLICIES if needed & policy.action_purposes.keys()))


def get_action_purpose(action: str) -> str:
    """Return the purpose of an action; empty if no policy contains it."""
    return next(
        (policy.action_purposes[action] for policy in POLICIES if action in policy.action_purposes), ""
    )


def get_policy_title(action: str) -> str:
    """Return the title of the policy with an action; empty if there is none."""
    return next((policy.title for policy in POLICIES if action in policy.action_purposes), "")


def list_event_setup_actions() -> list[str]:
    """Return the actions that set up events and read the queue afterwards."""
    operations = ("CreateStack", "DescribeStacks", "DescribeStackEvents")
    stack_actions = (f"cloudformation:{operation}" for operation in operations)
    return [*stack_actions, *EVENT_SETUP_POLICY.actions, "sqs:ReceiveMessage", "sqs:DeleteMessage"]


def find_known_action(action: str) -> str:
    """Return an action as policies write it: CloudFormation reports those of SQS in lower case."""
    actions = (known for policy in POLICIES for known in policy.actions)
    return next((known for known in actions if known.lower() == action.lower()), action)


def get_policy(identifier: str) -> IamPolicy | None:
    """Return the policy of this name."""
    return next((policy for policy in POLICIES if policy.identifier == identifier), None)
