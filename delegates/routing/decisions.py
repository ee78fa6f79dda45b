"""Routing decision: the delegate that gets a task, and why the others do not."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from delegates.routing import rules
from delegates.routing.rules import RoutingCandidate, RoutingRequest, RuleVerdict


@dataclass(frozen=True)
class RoutingResult:
    """Routing result of one task.

    `ranked` are the eligible candidates, the best first. `impossible` means that waiting cannot help: no
    delegate in reach has the selectors (R039), or runs scripts. `sentence` is for users.
    """

    ranked: tuple[RoutingCandidate, ...]
    verdicts: tuple[RuleVerdict, ...]
    impossible: bool
    sentence: str

    @property
    def chosen(self) -> RoutingCandidate | None:
        return self.ranked[0] if self.ranked else None


class Preference(StrEnum):
    """Reasons for preferring one eligible delegate to another, strongest first."""

    ANSWERS = "answers"
    ALLOWED = "allowlist"
    SERVED = "served last"
    FREE = "load"
    RESTED = "turn"


def decide_route(wanted: RoutingRequest, candidates: Iterable[RoutingCandidate]) -> RoutingResult:
    """Choose the delegate of a task (R030-R046). The order of `candidates` makes no difference."""
    known = sorted(candidates, key=lambda one: (one.name, one.key))
    judged = {one.key: rules.evaluate_rules(wanted, one) for one in known}
    eligible = [one for one in known if all(verdict.ok for verdict in judged[one.key])]
    ranked = tuple(sorted(eligible, key=lambda one: _sort_key(wanted, one)))
    impossible = not ranked and (
        _nobody_has_the_selectors(wanted, known) or _nobody_runs_scripts(wanted, known)
    )
    return RoutingResult(
        ranked=ranked,
        verdicts=tuple(verdict for one in known for verdict in judged[one.key]),
        impossible=impossible,
        sentence=_sentence(wanted, known, judged, ranked, impossible),
    )


def _sort_key(wanted: RoutingRequest, one: RoutingCandidate) -> tuple[float, ...]:
    served = one.served_connector and not wanted.selectors
    return (one.missed, not one.allowed_seconds, not served, one.load, one.last_given, one.key)


def find_preference(wanted: RoutingRequest, ranked: tuple[RoutingCandidate, ...]) -> Preference | None:
    """Return the reason for preferring the first candidate to the second; None with a single candidate."""
    if len(ranked) < 2:
        return None
    pairs = zip(_sort_key(wanted, ranked[0]), _sort_key(wanted, ranked[1]), strict=True)
    place = next(place for place, (first, second) in enumerate(pairs) if first != second)
    return list(Preference)[min(place, len(Preference) - 1)]


def _nobody_has_the_selectors(wanted: RoutingRequest, known: list[RoutingCandidate]) -> bool:
    return bool(wanted.selectors) and not any(
        rules.is_in_reach(wanted, one) and rules.has_selectors(wanted, one) and not one.is_rejected
        for one in known
    )


def _nobody_runs_scripts(wanted: RoutingRequest, known: list[RoutingCandidate]) -> bool:
    return wanted.is_script and not any(
        rules.is_in_reach(wanted, one) and one.runs_scripts and not one.is_rejected for one in known
    )


_PREFERENCE_REASONS = {
    Preference.ANSWERS: "it accepted the offer",
    Preference.ALLOWED: "it reached {criterion} recently",
    Preference.SERVED: "it served this connector last",
    Preference.FREE: "it has the lowest load",
    Preference.RESTED: "it is next in round-robin order",
}


def _sentence(
    wanted: RoutingRequest,
    known: list[RoutingCandidate],
    judged: dict[int, tuple[RuleVerdict, ...]],
    ranked: tuple[RoutingCandidate, ...],
    impossible: bool,
) -> str:
    if _nobody_runs_scripts(wanted, known):
        return (
            f"No delegate at {wanted.scope} or above can run scripts; the built-in delegate cannot. Install "
            f"a delegate there."
        )
    if impossible:
        return (
            f"No registered delegate at {wanted.scope} or above has {_tags(wanted)}. "
            "Add the tags to a delegate, or change the selectors."
        )
    if ranked:
        return _describe_choice(wanted, ranked)
    near = [one for one in known if rules.is_in_reach(wanted, one)]
    selected = [one for one in near if rules.has_selectors(wanted, one)]
    if not selected:
        return f"No delegate is registered at {wanted.scope} or above."
    reasons = [f"{one.name}: {_first_fault(judged[one.key]).detail}" for one in selected]
    return f"Waiting for a delegate. {' '.join(_limit_reasons(reasons))}"


def _describe_choice(wanted: RoutingRequest, ranked: tuple[RoutingCandidate, ...]) -> str:
    first, because = ranked[0], find_preference(wanted, ranked)
    if because is None:
        return f"{first.name} is the only eligible delegate."
    reason = _PREFERENCE_REASONS[because].format(criterion=wanted.criterion)
    return f"{first.name} ranks first of {len(ranked)}: {reason}."


def _first_fault(verdicts: tuple[RuleVerdict, ...]) -> RuleVerdict:
    return next(verdict for verdict in verdicts if not verdict.ok)


def _tags(wanted: RoutingRequest) -> str:
    quoted = ", ".join(wanted.selectors)
    asked = f" that the {wanted.selectors_from.lower()} asks for" if wanted.selectors_from else ""
    return f"the tags {quoted}{asked}" if len(wanted.selectors) > 1 else f"the tag {quoted}{asked}"


MAX_REASONS = 3


def _limit_reasons(reasons: list[str]) -> list[str]:
    rest = len(reasons) - MAX_REASONS
    return [*reasons[:MAX_REASONS], *([f"And {rest} more."] if rest > 0 else [])]
