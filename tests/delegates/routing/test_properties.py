"""What holds for every task and every set of delegates."""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from delegates.routing import rules
from delegates.routing.decisions import decide_route
from delegates.routing.rules import RoutingCandidate, RoutingRequest

PATHS = st.sampled_from(["account", "account/a", "account/a/x", "account/a/xy", "account/b", "account/b/x"])
TAGS = st.sampled_from(["eu", "us", "gpu"])
ACCOUNTS = st.sampled_from(["", "111111111111", "222222222222"])
ENVIRONMENTS = st.sampled_from(["account/a/x/dev", "account/a/x/prod"])

wanted = st.builds(
    RoutingRequest,
    scope=PATHS,
    selectors=st.lists(TAGS, unique=True, max_size=2).map(tuple),
    criterion=st.just("https://example.com"),
    aws_account=ACCOUNTS,
    environment=st.just("") | ENVIRONMENTS,
)
candidate = st.builds(
    RoutingCandidate,
    key=st.integers(0, 10_000),
    name=st.sampled_from(["north", "south", "west"]),
    scope=PATHS,
    connected=st.booleans(),
    last_heartbeat=st.just("Heard."),
    admission=st.sampled_from(["ENABLED", "ENABLED", "PENDING_APPROVAL", "REJECTED", "DISABLED"]),
    draining=st.booleans(),
    environments=st.lists(ENVIRONMENTS, unique=True, max_size=2).map(tuple),
    aws_account=ACCOUNTS,
    tags=st.frozensets(TAGS),
    capacity=st.integers(0, 3),
    busy=st.integers(0, 3),
    blocked_seconds=st.sampled_from([0, 0, 100]),
    allowed_seconds=st.sampled_from([0, 100]),
    served_connector=st.booleans(),
    missed=st.integers(0, 2),
    last_assigned_at=st.integers(0, 3),
)
candidates = st.lists(candidate, max_size=6, unique_by=lambda candidate: candidate.key)


def is_eligible(routing_request: RoutingRequest, candidate: RoutingCandidate) -> bool:
    """Return whether a candidate passes all rules; an independent implementation of them."""
    return (
        candidate.connected
        and candidate.admission == "ENABLED"
        and not candidate.draining
        and f"{routing_request.scope}/".startswith(f"{candidate.scope}/")
        and (
            not routing_request.environment
            or not candidate.environments
            or routing_request.environment in candidate.environments
        )
        and (not routing_request.aws_account or candidate.aws_account in ("", routing_request.aws_account))
        and set(routing_request.selectors) <= candidate.tags
        and not candidate.blocked_seconds
        and candidate.busy < candidate.capacity
    )


@given(wanted, candidates)
def test_only_those_who_may_are_ranked_and_all_of_them_are(
    routing_request: RoutingRequest, candidate_list: list[RoutingCandidate]
) -> None:
    assert set(decide_route(routing_request, candidate_list).ranked) == {
        candidate for candidate in candidate_list if is_eligible(routing_request, candidate)
    }


@given(wanted, candidates, st.randoms())
def test_the_order_of_candidates_makes_no_difference(
    routing_request: RoutingRequest, candidate_list: list[RoutingCandidate], random: Random
) -> None:
    shuffled_candidates = list(candidate_list)
    random.shuffle(shuffled_candidates)
    first, second = (
        decide_route(routing_request, candidate_list),
        decide_route(routing_request, shuffled_candidates),
    )
    assert first.ranked == second.ranked
    assert (first.sentence, first.impossible) == (second.sentence, second.impossible)


@given(wanted, candidates, candidate)
def test_one_who_may_not_changes_nothing_of_who_may(
    routing_request: RoutingRequest, candidate_list: list[RoutingCandidate], another: RoutingCandidate
) -> None:
    stranger = replace(another, key=20_000, connected=False)
    assert (
        decide_route(routing_request, candidate_list).ranked
        == decide_route(routing_request, [*candidate_list, stranger]).ranked
    )


@given(wanted, candidates)
def test_nothing_fails_at_once_that_a_delegate_could_do_later(
    routing_request: RoutingRequest, candidate_list: list[RoutingCandidate]
) -> None:
    decision = decide_route(routing_request, candidate_list)
    capable_candidates = [
        candidate
        for candidate in candidate_list
        if rules.is_in_reach(routing_request, candidate)
        and rules.has_selectors(routing_request, candidate)
        and not candidate.is_rejected
    ]
    assert decision.impossible == bool(routing_request.selectors and not capable_candidates)
    assert decision.sentence


@given(wanted, candidates)
def test_who_may_not_is_told_what_would_help(
    routing_request: RoutingRequest, candidate_list: list[RoutingCandidate]
) -> None:
    for verdict in decide_route(routing_request, candidate_list).verdicts:
        assert bool(verdict.remedy) is not verdict.ok
