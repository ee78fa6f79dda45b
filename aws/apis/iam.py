"""Clients for STS and IAM: identity behind credentials, simulated permissions, roles."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from aws.caller import Caller, paginate, require_member, split_batches


@dataclass(frozen=True)
class AwsIdentity:
    """The account and the principal behind some credentials."""

    account_id: str
    arn: str


@dataclass(frozen=True)
class StsClient:
    """Speaks STS through a caller."""

    caller: Caller

    def get_identity(self) -> AwsIdentity:
        """Return the caller's identity, which needs no permission."""
        response = self.caller.call("sts", "GetCallerIdentity", {})
        return AwsIdentity(
            require_member(response, "Account", "sts", "GetCallerIdentity"), response.get("Arn", "")
        )

    def get_account_id(self) -> str:
        """Return the account id."""
        return self.get_identity().account_id


ACTIONS_PER_CALL = 100
_USER = re.compile(r"arn:(aws[\w-]*):(?:iam|sts)::(\d{12}):user/(.+)")
_SESSION = re.compile(r"arn:(aws[\w-]*):sts::(\d{12}):assumed-role/([^/]+)/.+")


class IamDecision(StrEnum):
    """Decision of IAM on an action for all resources."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNKNOWN = "unknown"


def parse_principal_arn(identity: str) -> str:
    """Return the user or role ARN of a GetCallerIdentity result; empty for other principals.

    The session of an assumed role does not contain the role's path: a role with a path is not found.
    """
    if match := _SESSION.fullmatch(identity):
        return "arn:{}:iam::{}:role/{}".format(*match.groups())
    if match := _USER.fullmatch(identity):
        return "arn:{}:iam::{}:user/{}".format(*match.groups())
    return ""


@dataclass(frozen=True)
class IamRole:
    """A role with the AWS services that may assume it, such as `ecs-tasks.amazonaws.com`."""

    name: str
    arn: str
    trusted_services: tuple[str, ...]


@dataclass(frozen=True)
class IamClient:
    """Speaks IAM through a caller."""

    caller: Caller

    def list_roles(self) -> list[IamRole]:
        """Return the roles of the account."""
        roles = paginate(self.caller, "iam", "ListRoles", {}, result_key="Roles", cursor_key="Marker")
        return [
            IamRole(
                role.get("RoleName", ""),
                role.get("Arn", ""),
                tuple(_list_trusted_services(role.get("AssumeRolePolicyDocument"))),
            )
            for role in roles
        ]

    def simulate_actions(self, principal: str, actions: Sequence[str]) -> dict[str, IamDecision]:
        """Return the decisions of a principal's policies on actions for all resources."""
        decisions: dict[str, IamDecision] = {}
        for batch in split_batches(actions, ACTIONS_PER_CALL):
            params = {"PolicySourceArn": principal, "ActionNames": list(batch), "MaxItems": len(batch)}
            response = self.caller.call("iam", "SimulatePrincipalPolicy", params)
            for result in response.get("EvaluationResults", ()):
                is_allowed = result.get("EvalDecision") == "allowed"
                decisions[result["EvalActionName"]] = (
                    IamDecision.ALLOWED if is_allowed else IamDecision.DENIED
                )
        return decisions


def _list_trusted_services(trust_policy: Any) -> Iterator[str]:
    if not isinstance(trust_policy, Mapping):
        return
    statements = trust_policy.get("Statement") or ()
    # IAM accepts single values in place of lists.
    for statement in [statements] if isinstance(statements, Mapping) else statements:
        principal = statement.get("Principal")
        services = principal.get("Service") or () if isinstance(principal, Mapping) else ()
        yield from [services] if isinstance(services, str) else services
