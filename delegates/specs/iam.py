"""The IAM documents of a delegate: trust, what the execution role needs besides, what deployments need."""

from typing import Any, Final

from aws import policies
from delegates.specs.plan import Plan

Document = dict[str, Any]

TRUST_FILE: Final = "trust-policy.json"
SECRET_FILE: Final = "secret-policy.json"  # noqa: S105
POLICY_FILE: Final = "harness-ecs-policy.json"
EXTENDED_FILE: Final = "harness-ecs-extended-policy.json"
POLICY_NAME: Final = "HarnessECS"
EXTENDED_NAME: Final = "HarnessECSExtended"
SECRET_POLICY_NAME: Final = "HarnessDelegateToken"  # noqa: S105
_VERSION: Final = "2012-10-17"
EXECUTION_POLICY: Final = "service-role/AmazonECSTaskExecutionRolePolicy"

# The documented policy, action for action (R145).
ACTIONS: Final = policies.BASE.actions
# What blue/green, run task, tags, auto scaling, alarms and logs need besides (T12): statement id to actions.
EXTENSIONS: Final = {one.identifier.title().replace("-", ""): one.actions for one in policies.EXTENSIONS}


def trust_policy() -> Document:
    """Lets ECS give a role to tasks (R120)."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "ecs-tasks.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    return {"Version": _VERSION, "Statement": [statement]}


def secret_policy(plan: Plan) -> Document:
    """Lets the execution role read the one secret that holds the token (R123)."""
    statement = {
        "Effect": "Allow",
        "Action": "secretsmanager:GetSecretValue",
        "Resource": _secret_resources(plan.secret_arn),
    }
    return {"Version": _VERSION, "Statement": [statement]}


def deploy_policy() -> Document:
    """What deployments do in AWS: the documented eighteen actions (R145)."""
    return policies.BASE.document


def extended_policy() -> Document:
    """What some steps need besides, one statement for each, to be left out where unused (T12)."""
    statements = [
        {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": "*"}
        for sid, actions in EXTENSIONS.items()
    ]
    return {"Version": _VERSION, "Statement": statements}


def _secret_resources(arn: str) -> list[str]:
    """The secret, however it is named: AWS ends its name with a hyphen and six characters of its own."""
    whole = ":".join(arn.split(":")[:7])
    return [whole, f"{whole}-??????"]
