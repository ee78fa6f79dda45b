"""Each rule of routing lets through whom it should, and nobody else."""

from dataclasses import replace
from typing import Any

import pytest

from delegates.routing.decisions import Preference, decide_route, find_preference
from delegates.routing.rules import RoutingCandidate, RoutingRequest, RoutingRule

PROJECT = "account/acme/shop"
REQUEST = RoutingRequest(scope=PROJECT, criterion="https://ecs.eu-west-1.amazonaws.com")
EU = RoutingCandidate(key=1, name="eu", scope=PROJECT, tags=frozenset({"eu"}))
US = replace(EU, key=2, name="us", tags=frozenset({"us"}))


@pytest.mark.parametrize(
    ("rule", "request_values", "candidate"),
    [
        (RoutingRule.CONNECTED, {}, {"connected": True}),
        (RoutingRule.ADMITTED, {}, {"admission": "ENABLED"}),
        (RoutingRule.SCOPE, {}, {"scope": PROJECT}),
        (RoutingRule.SCOPE, {}, {"scope": "account/acme"}),
        (RoutingRule.SCOPE, {}, {"scope": "account"}),
        (RoutingRule.ENVIRONMENT, {"environment": f"{PROJECT}/prod"}, {"environments": ()}),
        (RoutingRule.ENVIRONMENT, {"environment": f"{PROJECT}/prod"}, {"environments": (f"{PROJECT}/prod",)}),
        (RoutingRule.ENVIRONMENT, {"environment": ""}, {"environments": (f"{PROJECT}/prod",)}),
        (RoutingRule.TASK_KIND, {"task_kind": "aws"}, {"task_kinds": ()}),
        (RoutingRule.TASK_KIND, {"task_kind": "aws"}, {"task_kinds": ("shell", "aws")}),
        (RoutingRule.TASK_KIND, {"task_kind": ""}, {"task_kinds": ("shell",)}),
        (RoutingRule.AWS_ACCOUNT, {"aws_account": "111111111111"}, {"aws_account": "111111111111"}),
        (RoutingRule.AWS_ACCOUNT, {"aws_account": "111111111111"}, {"aws_account": ""}),
        (RoutingRule.AWS_ACCOUNT, {"aws_account": ""}, {"aws_account": "111111111111"}),
        (RoutingRule.SELECTORS, {"selectors": ()}, {"tags": frozenset()}),
        (RoutingRule.SELECTORS, {"selectors": ("a", "b")}, {"tags": frozenset({"a", "b", "c"})}),
        (RoutingRule.BLOCKLIST, {}, {"blocked_seconds": 0}),
        (RoutingRule.CAPACITY, {}, {"capacity": 10, "busy": 9}),
    ],
)
def test_who_passes_a_rule_gets_the_task(
    rule: RoutingRule, request_values: dict[str, Any], candidate: dict[str, Any]
) -> None:
    decision = decide_route(replace(REQUEST, **request_values), [replace(EU, **candidate)])
    assert decision.chosen is not None
    # Only of scripts is it asked who runs scripts, and only of what needs it who keeps tasks apart.
    skipped_rules = (RoutingRule.SCRIPTS, RoutingRule.ISOLATION, RoutingRule.RELEASE, RoutingRule.EXCLUDED)
    assert [candidate_rule.rule for candidate_rule in decision.verdicts] == [
        candidate_rule for candidate_rule in RoutingRule if candidate_rule not in skipped_rules
    ]
    assert not any(verdict.remedy for verdict in decision.verdicts)


@pytest.mark.parametrize(
    ("rule", "request_values", "candidate", "detail"),
    [
        (
            RoutingRule.CONNECTED,
            {},
            {"connected": False, "last_heartbeat": "It was last heard at noon."},
            "at noon",
        ),
        (RoutingRule.ADMITTED, {}, {"admission": "PENDING_APPROVAL"}, "waiting for approval"),
        (RoutingRule.ADMITTED, {}, {"admission": "REJECTED"}, "rejected"),
        (RoutingRule.ADMITTED, {}, {"admission": "DISABLED"}, "disabled"),
        (RoutingRule.ADMITTED, {}, {"draining": True}, "accepts no new ones"),
        (RoutingRule.SCOPE, {}, {"scope": "account/acme/other"}, "account/acme/other"),
        (RoutingRule.SCOPE, {}, {"scope": "account/acme/sho"}, "account/acme/sho"),
        (RoutingRule.SCOPE, {"scope": "account/acme"}, {"scope": PROJECT}, PROJECT),
        (
            RoutingRule.ENVIRONMENT,
            {"environment": f"{PROJECT}/prod"},
            {"environments": (f"{PROJECT}/dev",)},
            "not for account/acme/shop/prod",
        ),
        (
            RoutingRule.TASK_KIND,
            {"task_kind": "aws"},
            {"task_kinds": ("shell",)},
            "not for tasks of kind aws",
        ),
        (
            RoutingRule.AWS_ACCOUNT,
            {"aws_account": "111111111111"},
            {"aws_account": "222222222222"},
            "222222222222, the task belongs to 111111111111",
        ),
        (RoutingRule.SELECTORS, {"selectors": ("a", "b")}, {"tags": frozenset({"a"})}, "lacks the tag b"),
        (
            RoutingRule.SELECTORS,
            {"selectors": ("delegate 7",), "names_delegate": True},
            {"tags": frozenset({"delegate 8"})},
            "for another delegate only",
        ),
        (RoutingRule.BLOCKLIST, {}, {"blocked_seconds": 200, "blocked_reason": "No address"}, "No address"),
        (RoutingRule.CAPACITY, {}, {"capacity": 10, "busy": 10}, "10 of 10"),
        (RoutingRule.CAPACITY, {}, {"capacity": 0, "busy": 0}, "no instance"),
    ],
)
def test_who_fails_a_rule_is_not_given_the_task_and_told_what_to_do(
    rule: RoutingRule, request_values: dict[str, Any], candidate: dict[str, Any], detail: str
) -> None:
    decision = decide_route(replace(REQUEST, **request_values), [replace(EU, **candidate)])
    assert decision.chosen is None
    (failed_verdict,) = [verdict for verdict in decision.verdicts if not verdict.ok]
    assert failed_verdict.rule == rule
    assert detail in failed_verdict.detail
    assert failed_verdict.remedy


def test_a_delegate_out_of_reach_is_asked_nothing_else() -> None:
    decision = decide_route(REQUEST, [replace(EU, scope="account/globex", connected=False)])
    assert [verdict.rule for verdict in decision.verdicts] == [RoutingRule.SCOPE]


def test_being_blocked_holds_even_for_the_only_one_and_for_the_one_selected() -> None:
    decision = decide_route(replace(REQUEST, selectors=("eu",)), [replace(EU, blocked_seconds=299)])
    assert decision.chosen is None
    assert not decision.impossible
    (blocked_verdict,) = [verdict for verdict in decision.verdicts if verdict.rule == RoutingRule.BLOCKLIST]
    assert blocked_verdict.seconds_left == 299


def test_a_program_that_a_delegate_lacks_is_installed_and_not_reached() -> None:
    request = replace(REQUEST, criterion="program bash")
    lacking = replace(EU, blocked_seconds=200, blocked_reason="this delegate has no bash")
    decision = decide_route(request, [lacking])
    (verdict,) = [verdict for verdict in decision.verdicts if not verdict.ok]
    assert verdict.detail == "It could not run bash: this delegate has no bash."
    assert "Install bash in its image" in verdict.remedy


def test_a_delegate_is_preferred_for_a_program_because_it_ran_it() -> None:
    request = replace(REQUEST, criterion="program terraform")
    decision = decide_route(request, [US, replace(EU, allowed_seconds=60)])
    assert decision.sentence == "eu ranks first of 2: it ran terraform recently."
    assert "It ran terraform recently." in [verdict.detail for verdict in decision.verdicts]


@pytest.mark.parametrize(
    ("better_values", "worse", "preference"),
    [
        ({}, {"missed": 1, "allowed_seconds": 60}, Preference.RESPONSIVE),
        ({"allowed_seconds": 60, "busy": 5}, {"served_connector": True}, Preference.ALLOWED),
        ({"served_connector": True, "busy": 5}, {}, Preference.SERVED),
        ({"busy": 2, "capacity": 10, "last_assigned_at": 9}, {"busy": 1, "capacity": 4}, Preference.FREE),
        ({"last_assigned_at": 1}, {"last_assigned_at": 2}, Preference.ROTATION),
        ({}, {}, Preference.ROTATION),
    ],
)
def test_among_those_who_may_one_comes_first(
    better_values: dict[str, Any], worse: dict[str, Any], preference: Preference
) -> None:
    decision = decide_route(REQUEST, [replace(US, **worse), replace(EU, **better_values)])
    assert [candidate.name for candidate in decision.ranked] == ["eu", "us"]
    assert find_preference(REQUEST, decision.ranked) == preference
    assert decision.sentence.startswith("eu ranks first of 2: it ")


def test_who_served_the_connector_last_counts_only_without_selectors() -> None:
    served = replace(US, tags=EU.tags, served_connector=True, busy=1)
    assert decide_route(REQUEST, [EU, served]).chosen == served
    assert decide_route(replace(REQUEST, selectors=("eu",)), [EU, served]).chosen == EU


def test_selectors_that_no_registered_delegate_has_fail_at_once() -> None:
    decision = decide_route(replace(REQUEST, selectors=("gpu",), selectors_from="STEP"), [EU, US])
    assert decision.impossible
    assert decision.sentence == (
        "No registered delegate at account/acme/shop or above has the tag gpu that the step asks for. "
        "Add the tags to a delegate, or change the selectors."
    )


def test_a_selected_delegate_that_is_away_is_waited_for_and_no_other_takes_its_place() -> None:
    disconnected = replace(US, connected=False, last_heartbeat="Last heartbeat at 12:00:00 UTC.")
    decision = decide_route(replace(REQUEST, selectors=("us",)), [EU, disconnected])
    assert decision.chosen is None
    assert not decision.impossible
    assert decision.sentence == "Waiting for a delegate. us: Last heartbeat at 12:00:00 UTC."


@pytest.mark.parametrize("hidden_values", [{"scope": "account/globex"}, {"admission": "REJECTED"}])
def test_a_delegate_out_of_reach_or_rejected_is_not_waited_for(hidden_values: dict[str, Any]) -> None:
    decision = decide_route(replace(REQUEST, selectors=("us",)), [EU, replace(US, **hidden_values)])
    assert decision.impossible


def test_without_any_delegate_in_reach_the_sentence_says_so() -> None:
    assert decide_route(REQUEST, []).sentence == "No delegate is registered at account/acme/shop or above."


def test_a_sentence_names_three_reasons_at_most() -> None:
    full_candidates = [replace(EU, key=key, name=f"d{key}", busy=10) for key in range(5)]
    assert decide_route(REQUEST, full_candidates).sentence.endswith("d2: It has 10 of 10 tasks. And 2 more.")


@pytest.mark.parametrize(
    ("username", "scope", "reachable_names"),
    [("Alex", "account/north/alex", {"D1", "D2", "D4"}), ("Uri", "account/south/uri", {"D1", "D3", "D5"})],
)
def test_alex_and_uri_reach_the_delegates_of_their_own_branch(
    username: str, scope: str, reachable_names: set[str]
) -> None:
    """The worked example of R054: one of the account, one of each organization, one of each project."""
    scopes = {
        "D1": "account",
        "D2": "account/north",
        "D3": "account/south",
        "D4": "account/north/alex",
        "D5": "account/south/uri",
    }
    candidates = [RoutingCandidate(key, name, path) for key, (name, path) in enumerate(scopes.items())]
    assert {
        candidate.name for candidate in decide_route(RoutingRequest(scope), candidates).ranked
    } == reachable_names


def test_scripts_never_go_to_a_delegate_that_runs_none() -> None:
    built_in = RoutingCandidate(key=1, name="built-in", scope=PROJECT, runs_scripts=False)
    decision = decide_route(RoutingRequest(PROJECT, is_script=True), [built_in])
    assert decision.impossible
    assert "Install a delegate there." in decision.sentence
    own_delegate = RoutingCandidate(key=2, name="own", scope=PROJECT, busy=9)
    assert (
        decide_route(RoutingRequest(PROJECT, is_script=True), [built_in, own_delegate]).chosen == own_delegate
    )
    assert decide_route(RoutingRequest(PROJECT), [built_in]).chosen == built_in


@pytest.mark.parametrize(
    ("features", "is_allowed"),
    [(None, True), (frozenset({"aws-sessions", "more"}), True), (frozenset(), False)],
)
def test_an_older_release_gets_no_task_that_it_would_do_in_part(
    features: frozenset[str] | None, is_allowed: bool
) -> None:
    request = replace(REQUEST, features=("aws-sessions",))
    decision = decide_route(request, [replace(EU, features=features)])
    verdict = next(row for row in decision.verdicts if row.rule is RoutingRule.RELEASE)
    assert (verdict.ok, decision.chosen is not None) == (is_allowed, is_allowed)
    if not is_allowed:
        assert "does not know chains, names and tags of AWS sessions" in decision.sentence
        assert verdict.remedy == "Upgrade all of its instances."


@pytest.mark.parametrize(
    ("candidate", "is_allowed"),
    [
        ({"is_isolated": True, "script_scopes": ("account/acme/other",)}, True),
        ({"is_isolated": False, "script_scopes": ("",)}, True),
        ({"is_isolated": False, "script_scopes": (PROJECT,)}, True),
        ({"is_isolated": False, "script_scopes": ("account/acme/other", PROJECT)}, True),
        ({"is_isolated": False, "script_scopes": ("account/acme/other",)}, False),
        ({"is_isolated": False, "script_scopes": ("account/acme/other",), "shares_scripts": True}, True),
    ],
)
def test_who_cannot_keep_tasks_apart_works_for_one_project(
    candidate: dict[str, Any], is_allowed: bool
) -> None:
    decision = decide_route(replace(REQUEST, needs_isolation=True), [replace(EU, **candidate)])
    (verdict,) = [
        candidate_verdict
        for candidate_verdict in decision.verdicts
        if candidate_verdict.rule is RoutingRule.ISOLATION
    ]
    assert verdict.ok is is_allowed
    assert bool(verdict.remedy) is not is_allowed
    if not is_allowed:
        assert "account/acme/other" in decision.sentence
        # Another instance may come.
        assert not decision.impossible


def test_a_deployment_that_replaces_a_delegate_goes_to_another_one_or_waits() -> None:
    request = replace(REQUEST, excluded=EU.key)
    decision = decide_route(request, [EU, US])
    assert decision.chosen == US
    verdicts = {row.name: row for row in decision.verdicts if row.rule is RoutingRule.EXCLUDED}
    assert (verdicts["eu"].ok, verdicts["us"].ok) == (False, True)
    alone = decide_route(request, [EU])
    assert (alone.chosen, alone.impossible) == (None, False)
    assert "eu: This run replaces or removes it, so another delegate has to perform it." in alone.sentence
