"""Routing decision: the delegate that gets a task, and the reasons against the others."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from delegates.routing import rules
from delegates.routing.rules import RoutingCandidate, RoutingRequest, RuleVerdict


@dataclass(frozen=True)
class RoutingResult:
    """Routing result of one task.

    `ranked` are the eligible candidates, the best first. `impossible` means that waiting cannot help: no
    delegate in reach has the selectors (R039), or runs scripts. `sentence` is for users. `is_complete` if
    the verdicts are on all delegates.
    """

    ranked: tuple[RoutingCandidate, ...]
    verdicts: tuple[RuleVerdict, ...]
    impossible: bool
    sentence: str
    is_complete: bool = True

    @property
    def chosen(self) -> RoutingCandidate | None:
        return self.ranked[0] if self.ranked else None

    def list_keys(self) -> set[int]:
        """Return the keys of the delegates with verdicts."""
        return {verdict.key for verdict in self.verdicts}


class Preference(StrEnum):
    """Reasons for preferring one eligible delegate to another, strongest first."""

    RESPONSIVE = "answers"
    ALLOWED = "allowlist"
    SERVED = "served last"
    FREE = "load"
    ROTATION = "turn"


@dataclass(frozen=True)
class Omission:
    """Delegates that are not among the candidates.

    `eligible` if there may be some that rank behind all candidates. `selected` counts those in the task's
    reach with its tags, if no candidate is eligible; with `MAX_COUNTED` there may be more.
    """

    eligible: bool = False
    selected: int = 0


def decide_route(
    request: RoutingRequest, candidates: Iterable[RoutingCandidate], omission: Omission | None = None
) -> RoutingResult:
    """Choose the delegate of a task (R030-R046). The order of `candidates` makes no difference.

    Without an `omission` they are all delegates.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate.key)
    verdicts_by_key = {candidate.key: rules.evaluate_rules(request, candidate) for candidate in ordered}
    eligible = [
        candidate for candidate in ordered if all(verdict.ok for verdict in verdicts_by_key[candidate.key])
    ]
    ranked = tuple(sorted(eligible, key=lambda candidate: _build_sort_key(request, candidate)))
    impossible = not ranked and (
        _is_selector_unmatched(request, ordered) or _is_script_unsupported(request, ordered)
    )
    return RoutingResult(
        ranked=ranked,
        verdicts=tuple(verdict for candidate in ordered for verdict in verdicts_by_key[candidate.key]),
        impossible=impossible,
        sentence=_describe_decision(request, ordered, verdicts_by_key, ranked, omission or Omission()),
        is_complete=omission is None,
    )


def select_first(
    request: RoutingRequest, candidates: Iterable[RoutingCandidate], most: int
) -> list[RoutingCandidate]:
    """Return the candidates that would rank first if all were eligible; full ones come last."""
    ordered = sorted(candidates, key=lambda one: (one.busy >= one.capacity, *_build_sort_key(request, one)))
    return ordered[:most]


def _build_sort_key(request: RoutingRequest, candidate: RoutingCandidate) -> tuple[float, ...]:
    served = candidate.served_connector and not request.selectors
    return (
        candidate.missed,
        not candidate.allowed_seconds,
        not served,
        candidate.load,
        candidate.last_assigned_at,
        candidate.key,
    )


def find_preference(request: RoutingRequest, ranked: tuple[RoutingCandidate, ...]) -> Preference | None:
    """Return the reason for preferring the first candidate to the second; None with a single candidate."""
    if len(ranked) < 2:
        return None
    pairs = zip(_build_sort_key(request, ranked[0]), _build_sort_key(request, ranked[1]), strict=True)
    place = next(place for place, (first, second) in enumerate(pairs) if first != second)
    return list(Preference)[min(place, len(Preference) - 1)]


def _is_selector_unmatched(request: RoutingRequest, candidates: list[RoutingCandidate]) -> bool:
    return bool(request.selectors) and not any(
        rules.is_in_reach(request, candidate)
        and rules.has_selectors(request, candidate)
        and not candidate.is_rejected
        for candidate in candidates
    )


def _is_script_unsupported(request: RoutingRequest, candidates: list[RoutingCandidate]) -> bool:
    return request.is_script and not any(
        rules.is_in_reach(request, candidate) and candidate.runs_scripts and not candidate.is_rejected
        for candidate in candidates
    )


_PREFERENCE_REASONS = {
    Preference.RESPONSIVE: "it accepted the offer",
    Preference.ALLOWED: "it {recent_success}",
    Preference.SERVED: "it served this connector last",
    Preference.FREE: "it has the lowest load",
    Preference.ROTATION: "it is next in round-robin order",
}


WAITING = "Waiting for a delegate. "
"""Beginning of the sentence on a task that waits; the reasons of the delegates follow."""


def _describe_decision(
    request: RoutingRequest,
    candidates: list[RoutingCandidate],
    verdicts_by_key: dict[int, tuple[RuleVerdict, ...]],
    ranked: tuple[RoutingCandidate, ...],
    omission: Omission,
) -> str:
    if ranked:
        return _describe_choice(request, ranked, omission)
    if _is_script_unsupported(request, candidates):
        return (
            f"No delegate at {request.scope} or above can run scripts; the built-in delegate cannot. Install "
            f"a delegate there."
        )
    if _is_selector_unmatched(request, candidates):
        if request.names_delegate:
            return "The delegate that this task is for was deleted, archived or rejected."
        return (
            f"No registered delegate at {request.scope} or above has {_format_tags(request)}. "
            "Add the tags to a delegate, or change the selectors."
        )
    near = [candidate for candidate in candidates if rules.is_in_reach(request, candidate)]
    selected = [candidate for candidate in near if rules.has_selectors(request, candidate)]
    if not selected:
        return f"No delegate is registered at {request.scope} or above."
    reasons = [
        f"{candidate.name}: {_find_first_fault(verdicts_by_key[candidate.key]).detail}"
        for candidate in selected
    ]
    return f"{WAITING}{' '.join(_limit_reasons(reasons, omission.selected))}"


def _describe_choice(
    request: RoutingRequest, ranked: tuple[RoutingCandidate, ...], omission: Omission
) -> str:
    first, because = ranked[0], find_preference(request, ranked)
    if because is None:
        return f"{first.name} is the only eligible delegate."
    reason = _PREFERENCE_REASONS[because].format(recent_success=request.recent_success)
    count = f"{len(ranked)} or more" if omission.eligible else str(len(ranked))
    return f"{first.name} ranks first of {count}: {reason}."


def _find_first_fault(verdicts: tuple[RuleVerdict, ...]) -> RuleVerdict:
    return next(verdict for verdict in verdicts if not verdict.ok)


def _format_tags(request: RoutingRequest) -> str:
    quoted = ", ".join(request.selectors)
    origin = f" that the {request.selectors_from.lower()} asks for" if request.selectors_from else ""
    return f"the tags {quoted}{origin}" if len(request.selectors) > 1 else f"the tag {quoted}{origin}"


MAX_REASONS = 3
# Delegates that a sentence counts beside the judged ones: counting ten thousand would take too long.
MAX_COUNTED = 100


def _limit_reasons(reasons: list[str], omitted_count: int) -> list[str]:
    hidden_count = max(len(reasons) - MAX_REASONS, 0) + omitted_count
    count = f"at least {hidden_count}" if omitted_count >= MAX_COUNTED else str(hidden_count)
    return [*reasons[:MAX_REASONS], *([f"And {count} more."] if hidden_count > 0 else [])]
