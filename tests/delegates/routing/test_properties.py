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
candidates = st.lists(candidate, max_size=6, unique_by=lambda one: one.key)


def may(want: RoutingRequest, one: RoutingCandidate) -> bool:
    """Every rule said once more, in other words."""
    return (
        one.connected
        and one.admission == "ENABLED"
        and not one.draining
        and f"{want.scope}/".startswith(f"{one.scope}/")
        and (not want.environment or not one.environments or want.environment in one.environments)
        and (not want.aws_account or one.aws_account in ("", want.aws_account))
        and set(want.selectors) <= one.tags
        and not one.blocked_seconds
        and one.busy < one.capacity
    )


@given(wanted, candidates)
def test_only_those_who_may_are_ranked_and_all_of_them_are(
    want: RoutingRequest, known: list[RoutingCandidate]
) -> None:
    assert set(decide_route(want, known).ranked) == {one for one in known if may(want, one)}


@given(wanted, candidates, st.randoms())
def test_the_order_of_candidates_makes_no_difference(
    want: RoutingRequest, known: list[RoutingCandidate], random: Random
) -> None:
    shuffled = list(known)
    random.shuffle(shuffled)
    first, second = decide_route(want, known), decide_route(want, shuffled)
    assert first.ranked == second.ranked
    assert (first.sentence, first.impossible) == (second.sentence, second.impossible)


@given(wanted, candidates, candidate)
def test_one_who_may_not_changes_nothing_of_who_may(
    want: RoutingRequest, known: list[RoutingCandidate], another: RoutingCandidate
) -> None:
    stranger = replace(another, key=20_000, connected=False)
    assert decide_route(want, known).ranked == decide_route(want, [*known, stranger]).ranked


@given(wanted, candidates)
def test_nothing_fails_at_once_that_a_delegate_could_do_later(
    want: RoutingRequest, known: list[RoutingCandidate]
) -> None:
    decision = decide_route(want, known)
    could = [
        one
        for one in known
        if rules.is_in_reach(want, one) and rules.has_selectors(want, one) and not one.is_rejected
    ]
    assert decision.impossible == bool(want.selectors and not could)
    assert decision.sentence


@given(wanted, candidates)
def test_who_may_not_is_told_what_would_help(want: RoutingRequest, known: list[RoutingCandidate]) -> None:
    for verdict in decide_route(want, known).verdicts:
        assert bool(verdict.remedy) is not verdict.ok
