"""The load balancer verbs: who listens, by which rules, to which targets, and how healthy these are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws.caller import Caller
from aws.elb_types import Listener, LoadBalancer, Rule, TargetGroup, TargetHealth
from aws.paging import every, in_batches

__all__ = ["Elb", "Listener", "LoadBalancer", "Rule", "TargetGroup", "TargetHealth"]

# What DescribeTargetGroups and DescribeRules take in one call.
ARNS_PER_CALL = 20


@dataclass(frozen=True)
class Elb:
    """Speaks Elastic Load Balancing v2 through a caller."""

    caller: Caller

    def target_health(self, target_group_arn: str) -> list[TargetHealth]:
        answer = self._call("DescribeTargetHealth", {"TargetGroupArn": target_group_arn})
        return [TargetHealth.from_aws(one) for one in answer.get("TargetHealthDescriptions", ())]

    def load_balancers(self) -> list[LoadBalancer]:
        """Every load balancer of the region."""
        return [
            LoadBalancer.from_aws(one) for one in self._every("DescribeLoadBalancers", {}, "LoadBalancers")
        ]

    def load_balancer(self, name: str) -> LoadBalancer:
        """The load balancer with this name or ARN; raises `NotFound`."""
        named = {"LoadBalancerArns": [name]} if name.startswith("arn:") else {"Names": [name]}
        answer = self._call("DescribeLoadBalancers", named)
        return LoadBalancer.from_aws(next(iter(answer.get("LoadBalancers", ())), {}))

    def listeners(self, load_balancer_arn: str) -> list[Listener]:
        """The listeners of a load balancer."""
        found = self._every("DescribeListeners", {"LoadBalancerArn": load_balancer_arn}, "Listeners")
        return [Listener.from_aws(one) for one in found]

    def listener(self, arn: str) -> Listener:
        """One listener; raises `NotFound`."""
        answer = self._call("DescribeListeners", {"ListenerArns": [arn]})
        return Listener.from_aws(next(iter(answer.get("Listeners", ())), {}))

    def rules(self, listener_arn: str) -> list[Rule]:
        """The rules of an application load balancer's listener, the default rule among them."""
        found = self._every("DescribeRules", {"ListenerArn": listener_arn}, "Rules")
        return [Rule.from_aws(one) for one in found]

    def rule(self, arn: str) -> Rule:
        """One rule; raises `NotFound`."""
        answer = self._call("DescribeRules", {"RuleArns": [arn]})
        return Rule.from_aws(next(iter(answer.get("Rules", ())), {}))

    def target_groups(self, arns: Sequence[str]) -> list[TargetGroup]:
        """The target groups with these ARNs; raises `NotFound` if one of them does not exist."""
        found: list[TargetGroup] = []
        for batch in in_batches(arns, ARNS_PER_CALL):
            answer = self._call("DescribeTargetGroups", {"TargetGroupArns": batch})
            found += [TargetGroup.from_aws(one) for one in answer.get("TargetGroups", ())]
        return found

    def modify_rule(self, arn: str, actions: Sequence[Mapping[str, Any]]) -> None:
        """Give a rule other actions; its conditions stay. A default rule follows its listener instead."""
        self._call("ModifyRule", {"RuleArn": arn, "Actions": list(actions)})

    def modify_listener(self, arn: str, actions: Sequence[Mapping[str, Any]]) -> None:
        """Give the default rule of a listener other actions; the listener's other settings stay."""
        self._call("ModifyListener", {"ListenerArn": arn, "DefaultActions": list(actions)})

    def _every(self, operation: str, params: Mapping[str, Any], member: str) -> list[dict[str, Any]]:
        pages = every(
            self.caller, "elbv2", operation, params, member=member, page="Marker", following="NextMarker"
        )
        return list(pages)

    def _call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return self.caller.call("elbv2", operation, params)
