"""The load balancer verbs: for now, how healthy the targets of a group are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from aws.caller import Caller


@dataclass(frozen=True)
class TargetHealth:
    """What a target group thinks of one target; `reason` and `description` are empty when it is healthy."""

    id: str
    port: int
    state: str
    reason: str
    description: str

    @classmethod
    def from_aws(cls, found: Mapping[str, Any]) -> Self:
        target, health = found.get("Target", {}), found.get("TargetHealth", {})
        return cls(
            id=target.get("Id", ""),
            port=target.get("Port", 0),
            state=health.get("State", ""),
            reason=health.get("Reason") or "",
            description=health.get("Description") or "",
        )


@dataclass(frozen=True)
class Elb:
    """Speaks Elastic Load Balancing v2 through a caller."""

    caller: Caller

    def target_health(self, target_group_arn: str) -> list[TargetHealth]:
        answer = self.caller.call("elbv2", "DescribeTargetHealth", {"TargetGroupArn": target_group_arn})
        return [TargetHealth.from_aws(one) for one in answer.get("TargetHealthDescriptions", ())]
