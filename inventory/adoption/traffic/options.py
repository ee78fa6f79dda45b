"""Traffic options of a blue/green pair: listener rules that can be production and stage."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from guards.limits import ADOPTION_ROUTES
from inventory.adoption.traffic.cursor import TrafficCursor
from steps.actions.blue_green.listener_rules import ListenerRoute, format_conditions, format_target_group

RANK_PARTNERS, RANK_SIMILAR, RANK_POSSIBLE, RANK_RUNTIME_INPUT = range(4)
"""How sure it is that a rule is the stage: it leads to the other of the pair; it takes the same requests
elsewhere; nothing speaks against it; a person says it at each run."""


@dataclass(frozen=True)
class TrafficPair:
    """What is known of the pair: the target group of the ECS service, and of the other one, if there is one.

    `ports` are those that its containers have, `taken` the groups of other ECS services of the cluster.
    """

    group: str
    partner: str
    ports: Collection[int]
    taken: Collection[str]


@dataclass(frozen=True)
class RuleCandidate:
    """A rule to choose: `key` is its ARN, or that of its listener where a listener has no rules (NLB)."""

    key: str
    balancer: str
    listener: str
    rule: str
    description: str
    weights: str

    @classmethod
    def of(cls, route: ListenerRoute, balancer: str, name: str) -> Self:
        words = f"{name}, {route.words()}"
        return cls(
            route.rule or route.listener, balancer, route.listener, route.rule, words, route.group_words()
        )


@dataclass(frozen=True)
class TrafficOption:
    """Production and stage that fit each other; without `stage` that is asked at each run.

    `rank` says how sure the stage is, the surest being 0.
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
        """What a form sends for it."""
        return f"{self.production.key} {self.stage.key if self.stage else ''}".strip()


@dataclass(frozen=True)
class TrafficOptions:
    """What fits, the surest first, what a person should know of it, and what is missing for the rest."""

    options: tuple[TrafficOption, ...] = ()
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        choices = tuple(map(TrafficOption.from_row, row.get("options", ())))
        return cls(choices, tuple(row.get("warnings", ())), tuple(row.get("missing", ())))

    def to_row(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def certain_option(self) -> TrafficOption | None:
        """The one that needs no person to choose: surer than all others, and not merely possible."""
        if not self.options:
            return None
        first = self.options[0]
        is_sure = first.rank != RANK_POSSIBLE
        equal = [one for one in self.options if one.rank == first.rank]
        return first if is_sure and len(equal) == 1 else None

    def get_option(self, key: str) -> TrafficOption | None:
        """The choice with this key."""
        return next((one for one in self.options if one.key == key), None)


def find_traffic_options(reading: TrafficCursor, pair: TrafficPair) -> TrafficOptions:
    """Production is what sends traffic to the ECS service; stage what a deployment would accept beside it."""
    if reading.read_error:
        return TrafficOptions(missing=(f"The load balancer could not be read: {reading.read_error}",))
    found = _PairRoutes(reading, pair)
    productions = [one for one in found.routes if one[0].receiving.get(pair.group, 0) > 0]
    if not productions:
        return TrafficOptions(missing=(_describe_missing_production(found),))
    pairs = [(prod, *stage) for prod in productions for stage in found.list_stages(prod)]
    choices = [
        TrafficOption(found.build_candidate(prod), found.build_candidate(stage), rank)
        for prod, stage, rank in pairs
    ]
    lacking = []
    if all(one.rank == RANK_POSSIBLE for one in choices):
        choices += [TrafficOption(found.build_candidate(one)) for one in productions]
        lacking = [_describe_missing_stage(found, productions[0])]
    choices.sort(key=lambda one: one.rank)
    return TrafficOptions(
        tuple(choices[:ADOPTION_ROUTES]), tuple(_list_warnings(found, productions)), tuple(lacking)
    )


_BalancerRoute = tuple[ListenerRoute, str]
"""A rule, and the ARN of its load balancer."""


class _PairRoutes:
    """All rules that were read, beside the pair that they are judged for."""

    def __init__(self, reading: TrafficCursor, pair: TrafficPair) -> None:
        self.reading, self.pair = reading, pair
        self.routes: list[_BalancerRoute] = [
            (
                ListenerRoute.from_memory({key: value for key, value in one.items() if key != "balancer"}),
                one["balancer"],
            )
            for one in reading.routes
        ]

    def build_candidate(self, one: _BalancerRoute) -> RuleCandidate:
        route, balancer = one
        return RuleCandidate.of(route, balancer, self.reading.balancers.get(balancer, {}).get("name", ""))

    def list_stages(self, production: _BalancerRoute) -> Iterator[tuple[_BalancerRoute, int]]:
        """The rules that a deployment would accept as stage beside this production, with how sure each is."""
        prod, balancer = production
        for one in self.routes:
            route, where = one
            if where == balancer and route != prod and self._is_deployable(route, prod):
                yield one, self._rank(route, prod)

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
            # One group behind both rules is a way to work, where the pair shares it already.
            return self.pair.partner == group and prod.groups == [group]
        feeding = [one for one, _ in self.routes if group in one.groups]
        if group in prod.groups or any(one != route for one in feeding):
            return False
        known = self.reading.groups.get(group, {})
        return known.get("port") in self.pair.ports and self._is_free(group)

    def _is_free(self, group: str) -> bool:
        """Whether nobody else's targets are in it: none that this cluster or anybody else has put there."""
        if group == self.pair.partner:
            return True
        return group not in self.pair.taken and self.reading.targets.get(group) == 0


def _list_warnings(found: _PairRoutes, productions: Sequence[_BalancerRoute]) -> Iterator[str]:
    if len(productions) > 1:
        words = "; ".join(found.build_candidate(one).description for one in productions[:5])
        yield (
            f"{len(productions)} rules send traffic to it: {words}. A deployment moves the one that is "
            "chosen; the others go on leading to the old version, which then keeps its tasks. Let them "
            "redirect to it."
        )
    for route, _ in productions:
        if len(route.receiving) > 1:
            yield (
                f"The {route.words()} splits traffic: {route.group_words()}. After a deployment all of it "
                "goes to the new version."
            )


def _describe_missing_production(found: _PairRoutes) -> str:
    group = format_target_group(found.pair.group)
    if not found.reading.groups.get(found.pair.group, {}).get("balancers"):
        return (
            f"The target group {group} belongs to no load balancer any more. Make a listener rule that "
            "forwards to it, for production, and one that forwards to a second group, for the stage; then "
            "read it again."
        )
    return (
        f"No listener rule sends traffic to the target group {group}. Let the rule of production forward to "
        "it; then read it again."
    )


def _describe_missing_stage(found: _PairRoutes, production: _BalancerRoute) -> str:
    route, balancer = production
    known = found.reading.groups.get(found.pair.group, {})
    where = found.reading.balancers.get(balancer, {})
    ports = " or ".join(str(port) for port in sorted(found.pair.ports)) or "of the container"
    group = (
        f"a target group of type {known.get('target_type', 'ip')} with protocol "
        f"{known.get('protocol', 'HTTP')} and port {ports} in VPC {where.get('vpc', '')}, without targets"
    )
    kept = "its default rule" if route.is_default else f"a rule for {format_conditions(route.conditions)}"
    return (
        f"There is no rule that is surely the stage. Make {group}; then a listener of load balancer "
        f"{where.get('name', '')} on a port that is free, whose {kept.removeprefix('its ')} forwards to it. "
        "Then read it again; until then the pipeline asks for the stage at each run."
    )
