"""Traffic options of a blue/green pair: listener rules that can be production and stage."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from guards.limits import ADOPTION_ROUTES
from inventory.adoption.traffic.cursor import TrafficCursor
from steps.actions.blue_green.listener_rules import ListenerRoute, format_conditions, format_target_group

RANK_PARTNERS, RANK_SIMILAR, RANK_POSSIBLE, RANK_RUNTIME_INPUT = range(4)
"""The certainty that a rule is the stage: it forwards to the partner; it has the same conditions on another
listener; nothing contradicts it; a person chooses at each run."""


@dataclass(frozen=True)
class TrafficPair:
    """The target groups of a pair: of the ECS service, and of its partner if there is one.

    `ports` are the ports of its containers, `used_groups` the target groups of other ECS services.
    """

    group: str
    partner: str
    ports: Collection[int]
    used_groups: Collection[str]


@dataclass(frozen=True)
class RuleCandidate:
    """A listener rule to choose; `key` is its ARN, or the listener's where it has no rules (NLB)."""

    key: str
    balancer: str
    listener: str
    rule: str
    description: str
    weights: str

    @classmethod
    def of(cls, route: ListenerRoute, balancer: str, name: str) -> Self:
        description = f"{name}, {route.describe()}"
        return cls(
            route.rule or route.listener,
            balancer,
            route.listener,
            route.rule,
            description,
            route.describe_groups(),
        )


@dataclass(frozen=True)
class TrafficOption:
    """A production rule and a matching stage rule; without `stage`, each run asks for it.

    `rank` is the certainty of the stage, 0 the highest.
    """

    production: RuleCandidate
    stage: RuleCandidate | None = None
    rank: int = RANK_RUNTIME_INPUT

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        stage = row["stage"]
        return cls(RuleCandidate(**row["production"]), RuleCandidate(**stage) if stage else None, row["rank"])

    def to_row(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def key(self) -> str:
        """Return the value of the option in a form."""
        return f"{self.production.key} {self.stage.key if self.stage else ''}".strip()


@dataclass(frozen=True)
class TrafficOptions:
    """The options, the most certain first, with warnings and missing requirements."""

    options: tuple[TrafficOption, ...] = ()
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        options = tuple(map(TrafficOption.from_row, row.get("options", ())))
        return cls(options, tuple(row.get("warnings", ())), tuple(row.get("missing", ())))

    def to_row(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def certain_option(self) -> TrafficOption | None:
        """Return the option that needs no choice: more certain than all others, and not merely possible."""
        if not self.options:
            return None
        first = self.options[0]
        is_sure = first.rank != RANK_POSSIBLE
        equal = [option for option in self.options if option.rank == first.rank]
        return first if is_sure and len(equal) == 1 else None

    def get_option(self, key: str) -> TrafficOption | None:
        """Return the option with this key."""
        return next((option for option in self.options if option.key == key), None)


def find_traffic_options(cursor: TrafficCursor, pair: TrafficPair) -> TrafficOptions:
    """Find the production rules of the ECS service, and the stage rules that a deployment accepts."""
    if cursor.read_error:
        return TrafficOptions(missing=(f"Could not read the load balancer: {cursor.read_error}",))
    routes = _PairRoutes(cursor, pair)
    productions = [route for route in routes.routes if route[0].weights.get(pair.group, 0) > 0]
    if not productions:
        return TrafficOptions(missing=(_describe_missing_production(routes),))
    pairs = [(production, *stage) for production in productions for stage in routes.list_stages(production)]
    options = [
        TrafficOption(routes.build_candidate(production), routes.build_candidate(stage), rank)
        for production, stage, rank in pairs
    ]
    missing = []
    if all(route.rank == RANK_POSSIBLE for route in options):
        options += [TrafficOption(routes.build_candidate(route)) for route in productions]
        missing = [_describe_missing_stage(routes, productions[0])]
    options.sort(key=lambda route: route.rank)
    return TrafficOptions(
        tuple(options[:ADOPTION_ROUTES]), tuple(_list_warnings(routes, productions)), tuple(missing)
    )


_BalancerRoute = tuple[ListenerRoute, str]
"""A rule with the ARN of its load balancer."""


class _PairRoutes:
    """The rules that were read, and the pair to evaluate them for."""

    def __init__(self, cursor: TrafficCursor, pair: TrafficPair) -> None:
        self.cursor, self.pair = cursor, pair
        self.routes: list[_BalancerRoute] = [
            (
                ListenerRoute.from_record({key: value for key, value in row.items() if key != "balancer"}),
                row["balancer"],
            )
            for row in cursor.routes
        ]

    def build_candidate(self, balancer_route: _BalancerRoute) -> RuleCandidate:
        route, balancer = balancer_route
        return RuleCandidate.of(route, balancer, self.cursor.balancers.get(balancer, {}).get("name", ""))

    def list_stages(self, production: _BalancerRoute) -> Iterator[tuple[_BalancerRoute, int]]:
        """Yield the stage rules that a deployment accepts for this production rule, with their rank."""
        prod, balancer = production
        for candidate in self.routes:
            route, route_balancer = candidate
            if route_balancer == balancer and route != prod and self._is_deployable(route, prod):
                yield candidate, self._rank(route, prod)

    def _rank(self, route: ListenerRoute, prod: ListenerRoute) -> int:
        if self.pair.partner and route.first_group == self.pair.partner:
            return RANK_PARTNERS
        is_alike = route.listener != prod.listener and route.conditions == prod.conditions
        return RANK_SIMILAR if is_alike else RANK_POSSIBLE

    def _is_deployable(self, route: ListenerRoute, prod: ListenerRoute) -> bool:
        group = route.first_group
        if not route.groups or not group:
            return False
        if group == self.pair.group:
            # Both rules may forward to one group if the pair already shares it.
            return self.pair.partner == group and prod.groups == [group]
        feeding = [other_route for other_route, _ in self.routes if group in other_route.groups]
        if group in prod.groups or any(other_route != route for other_route in feeding):
            return False
        target_group = self.cursor.groups.get(group, {})
        return target_group.get("port") in self.pair.ports and self._is_free(group)

    def _is_free(self, group: str) -> bool:
        """Return whether the group has no targets of another service."""
        if group == self.pair.partner:
            return True
        return group not in self.pair.used_groups and self.cursor.targets.get(group) == 0


def _list_warnings(routes: _PairRoutes, productions: Sequence[_BalancerRoute]) -> Iterator[str]:
    if len(productions) > 1:
        descriptions = "; ".join(
            routes.build_candidate(production).description for production in productions[:5]
        )
        yield (
            f"{len(productions)} rules route traffic to this ECS service: {descriptions}. A deployment "
            "switches only the selected rule. The others keep routing to the old version, which keeps its "
            "tasks. Change them to redirect to the selected rule."
        )
    for route, _ in productions:
        if len(route.weights) > 1:
            yield (
                f"The {route.describe()} splits traffic: {route.describe_groups()}. After a deployment, all "
                "traffic goes to the new version."
            )


def _describe_missing_production(routes: _PairRoutes) -> str:
    group = format_target_group(routes.pair.group)
    if not routes.cursor.groups.get(routes.pair.group, {}).get("balancers"):
        return (
            f"The target group {group} has no load balancer. Create a production listener rule that "
            "forwards to it and a stage listener rule that forwards to a second target group. Then read "
            "the ECS service again."
        )
    return (
        f"No listener rule forwards to the target group {group}. Change the production rule to forward "
        "to it, then read the ECS service again."
    )


def _describe_missing_stage(routes: _PairRoutes, production: _BalancerRoute) -> str:
    route, balancer = production
    target_group = routes.cursor.groups.get(routes.pair.group, {})
    load_balancer = routes.cursor.balancers.get(balancer, {})
    ports = " or ".join(str(port) for port in sorted(routes.pair.ports)) or "of the container"
    group = (
        f"a target group of type {target_group.get('target_type', 'ip')} with protocol "
        f"{target_group.get('protocol', 'HTTP')} and port {ports} in VPC "
        f"{load_balancer.get('vpc', '')}, without targets"
    )
    rule_name = (
        "its default rule" if route.is_default else f"a rule for {format_conditions(route.conditions)}"
    )
    return (
        f"No stage rule found. Create {group}. Then create a listener of load balancer "
        f"{load_balancer.get('name', '')} on a free port, whose {rule_name.removeprefix('its ')} forwards to "
        "it, and read the ECS service again. Until then, set the stage listener at each run."
    )
