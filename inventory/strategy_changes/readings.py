"""Live reads of the ECS service that a stage deploys, with the choices that they leave for a strategy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self

from catalog.models import Infrastructure
from delegates.access.lookup_requests import find_recent_options, list_options
from delegates.access.service_traffic import build_traffic_subject, list_registered_groups
from delegates.models import LookupRequest
from inventory.strategy_changes.strategies import RuleReference, get_running_strategy
from rbac.models import User
from steps.actions.ecs_service.snapshots import get_pair_names
from web.clock import get_database_time

# A reading through a delegate serves the forms of its reader for this long.
READING_AGE: Final = timedelta(minutes=15)


@dataclass(frozen=True)
class RuleChoice:
    """A listener rule, with the weights of its target groups."""

    reference: RuleReference
    is_default: bool
    title: str
    weights: Mapping[str, int]

    @property
    def key(self) -> str:
        return self.reference.key

    @property
    def groups(self) -> list[str]:
        """Return the target groups that receive traffic."""
        return [arn for arn, weight in self.weights.items() if weight]


@dataclass(frozen=True)
class GroupChoice:
    """A target group of the same network and kind as those of the service."""

    arn: str
    name: str
    port: int
    is_used: bool

    @property
    def title(self) -> str:
        return f"{self.name} (port {self.port}{'' if self.is_used else ', unused'})"


@dataclass(frozen=True)
class ServiceReading:
    """An ECS service as it runs; `name` is the serviceName of its definition.

    `service` is the ECS service that serves, of a blue/green pair its live half; empty without one.
    """

    name: str
    services: tuple[Mapping[str, Any], ...]
    rules: tuple[RuleChoice, ...]
    groups: tuple[GroupChoice, ...]

    @classmethod
    def from_option(cls, name: str, option: Mapping[str, Any]) -> Self:
        """Build the reading from the answer of a lookup of `TRAFFIC`."""
        rules = tuple(
            RuleChoice(
                RuleReference(row["balancer"], row["listener"], row["rule"]),
                row["is_default"],
                row["title"],
                row["weights"],
            )
            for row in option["routes"]
        )
        return cls(
            name, tuple(option["services"]), rules, tuple(GroupChoice(**row) for row in option["groups"])
        )

    @property
    def strategy(self) -> str:
        """Return how the service is deployed; "" if it does not run."""
        return get_running_strategy(self.services, self.name)

    @property
    def service(self) -> Mapping[str, Any]:
        """Return the ECS service whose target group has production traffic, or the only one that runs."""
        order = (self.name, *get_pair_names(self.name))
        running = [row for row in self.services if row.get("desiredCount") or row.get("runningCount")]
        running.sort(key=lambda row: order.index(row["serviceName"]))
        first: Mapping[str, Any] = running[0] if running else {}
        return next((row for row in running if self._list_live_groups(row)), first)

    @property
    def live_groups(self) -> list[str]:
        """Return the target groups of the service that receive traffic of a rule."""
        return self._list_live_groups(self.service)

    def find_production(self) -> RuleChoice | None:
        """Return the rule that sends production traffic to the service; None if several may."""
        if known := self._find_rule("productionListenerRule"):
            return known
        rules = [rule for rule in self.rules if set(rule.groups) & set(self.live_groups)]
        return rules[0] if len(rules) == 1 else None

    def find_test(self) -> RuleChoice | None:
        """Return the rule for tests of the new version, where the service names one."""
        return self._find_rule("testListenerRule")

    def find_alternate(self) -> str:
        """Return the target group for the new version: the second of the service, or the only free one."""
        own = [group for group in list_registered_groups(self.service) if group not in self.live_groups]
        others = [group for group in self.groups if group.arn not in self.live_groups]
        unused = [group for group in others if not group.is_used]
        candidates = unused or others
        return own[0] if own else candidates[0].arn if len(candidates) == 1 else ""

    def get_rule(self, key: str) -> RuleChoice | None:
        """Return the rule with this ARN."""
        return next((rule for rule in self.rules if rule.key == key), None)

    def find_listener_rule(self, listener: str, rule: str) -> RuleChoice | None:
        """Return the rule with this ARN, or without one the default rule of the listener."""
        if rule:
            return self.get_rule(rule)
        rules = (row for row in self.rules if row.reference.listener == listener and row.is_default)
        return next(rules, None)

    def get_group_name(self, arn: str) -> str:
        """Return the name of a target group."""
        return next((group.name for group in self.groups if group.arn == arn), arn)

    def get_advanced(self) -> Mapping[str, str]:
        """Return the advancedConfiguration of the first load balancer of the service."""
        balancers: Sequence[Mapping[str, Any]] = self.service.get("loadBalancers") or ()
        return next(iter(balancers), {}).get("advancedConfiguration") or {}

    def _find_rule(self, field: str) -> RuleChoice | None:
        return self.get_rule(self.get_advanced().get(field) or "")

    def _list_live_groups(self, service: Mapping[str, Any]) -> list[str]:
        served = {group for rule in self.rules if not self._is_test(rule) for group in rule.groups}
        return [group for group in list_registered_groups(service) if group in served]

    def _is_test(self, rule: RuleChoice) -> bool:
        tests = {
            (balancer.get("advancedConfiguration") or {}).get("testListenerRule")
            for service in self.services
            for balancer in service.get("loadBalancers") or ()
        }
        return rule.key in tests


def read_service(
    *, actor: User, infrastructure: Infrastructure, name: str, is_repeated: bool = False
) -> ServiceReading | LookupRequest:
    """Return the ECS service as it runs, or the lookup while a delegate reads it.

    `is_repeated` for a form that shows an earlier reading of this person: a delegate does not read it again.
    Raises `ConnectorUnavailable`, `MissingAccess`, and `BadInput` for a name that ECS does not allow.
    """
    query: Mapping[str, Any] = {
        "actor": actor,
        "connector": infrastructure.connector,
        "kind": LookupRequest.Kind.TRAFFIC,
        "region": infrastructure.region,
        "subject": build_traffic_subject(infrastructure.cluster, name),
    }
    recent = find_recent_options(**query, since=get_database_time() - READING_AGE) if is_repeated else None
    options = recent or list_options(**query)
    if isinstance(options, LookupRequest):
        return options
    return ServiceReading.from_option(name, options[0])
