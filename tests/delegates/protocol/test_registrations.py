"""Agents register with a token of their scope; who may not is told why, and so are people."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from delegates.models import (
    Delegate,
    DelegateConfiguration,
    DelegateEvent,
    DelegateInstance,
    DelegateToken,
)
from delegates.protocol.problems import TooOften
from guards.limits import AGENT_REFUSALS
from rbac.models import Scope
from tests.delegates.protocol.fake_agents import (
    ADDRESS,
    Agent,
    build_registration,
    register_agent,
    send_request,
)
from tests.fixtures.delegates import make_delegate, make_token
from web.http.problems import BadInput, Problem

pytestmark = pytest.mark.django_db


def get_problem(body: dict[str, Any], bearer: str) -> Problem:
    with pytest.raises(Problem) as error:
        send_request("register", body, bearer)
    return error.value


def test_an_unknown_name_becomes_a_delegate_of_the_tokens_scope(token: DelegateToken, project: Scope):
    agent = register_agent(token, ecs={"cluster": "demo", "task_arn": "arn:x", "other": 3})
    delegate = Delegate.objects.get(scope=project, name="eu")
    assert (delegate.admission, delegate.kind, delegate.flavour) == ("ENABLED", "ECS", "v3")
    assert delegate.configuration is not None
    assert delegate.configuration.is_primary
    assert agent.instance.ecs == {"cluster": "demo", "task_arn": "arn:x"}
    assert agent.instance.tags == ["said"]
    token.refresh_from_db()
    assert token.last_used_at is not None


def test_what_a_release_can_do_is_told_at_each_registration(token: DelegateToken):
    agent = register_agent(token, features=["aws-sessions", "of-a-later-release"])
    assert agent.instance.has_features(["aws-sessions"])
    # The same instance with an older image.
    agent = register_agent(token)
    assert agent.instance.features == []
    assert not agent.instance.has_features(["aws-sessions"])


def test_a_task_that_replaces_another_is_a_new_instance_of_the_same_delegate(token: DelegateToken):
    first, second = (register_agent(token, instance_key=f"arn:aws:ecs:task/{number}") for number in (1, 2))
    assert first.instance.delegate_id == second.instance.delegate_id
    assert first.instance.pk != second.instance.pk


def test_the_same_key_is_the_same_instance_and_its_old_session_is_refused(token: DelegateToken):
    first, second = register_agent(token), register_agent(token)
    assert first.instance.pk == second.instance.pk
    assert second.acquire() == []
    with pytest.raises(Problem) as error:
        first.acquire()
    assert (error.value.status, error.value.code) == (401, "session_invalid")


def test_a_delegate_that_somebody_prepared_keeps_what_was_said_of_it(token: DelegateToken, project: Scope):
    prepared_delegate = make_delegate(project, "eu", tags=["prepared"], kind="DOCKER")
    assert register_agent(token).instance.delegate_id == prepared_delegate.pk
    prepared_delegate.refresh_from_db()
    assert (prepared_delegate.tags, prepared_delegate.kind) == (["prepared"], "DOCKER")


def test_where_approval_is_needed_the_agent_waits_and_its_host_is_seen(token: DelegateToken, project: Scope):
    DelegateConfiguration.objects.filter(is_primary=True).update(requires_approval=True)
    for _ in range(2):
        reply = send_request("register", build_registration(), token.value)
        assert (reply.status, reply.content["status"]) == (202, "PENDING_APPROVAL")
    (instance,) = DelegateInstance.objects.filter(delegate__scope=project)
    assert (instance.hostname, instance.session_hash, instance.last_heartbeat_at) == ("host-1", "", None)
    assert DelegateEvent.objects.filter(instance=instance).count() == 1
    Delegate.objects.filter(pk=instance.delegate_id).update(admission="ENABLED")
    assert register_agent(token).instance.pk == instance.pk


UNKNOWN = f"{DelegateToken.PREFIX}{'x' * 43}"


@pytest.mark.parametrize(
    ("token_value", "status", "code"),
    [
        ("", 401, "token_malformed"),
        ("letmein", 401, "token_malformed"),
        (f"{UNKNOWN}x", 401, "token_malformed"),
        (f"{UNKNOWN[:-1]}é", 401, "token_malformed"),
        (UNKNOWN, 401, "token_unknown"),
    ],
)
def test_what_is_no_token_is_refused_and_seen_in_the_account(
    account: Scope, token_value: str, status: int, code: str
):
    problem = get_problem(build_registration(), token_value)
    assert (problem.status, problem.code) == (status, code)
    event = DelegateEvent.objects.get(kind="REFUSED")
    assert (event.scope, event.name, event.text, event.address) == (account, "eu", problem.detail, ADDRESS)
    assert not token_value or token_value not in event.text


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"status": "REVOKED", "revoked_at": timezone.now()}, "token_revoked"),
        ({"expires_at": timezone.now() - timedelta(seconds=1)}, "token_expired"),
    ],
)
def test_a_token_that_is_over_is_refused_and_seen_in_its_scope(
    token: DelegateToken, project: Scope, values: dict[str, Any], code: str
):
    DelegateToken.objects.filter(pk=token.pk).update(**values)
    assert get_problem(build_registration(), token.value).code == code
    event = DelegateEvent.objects.get(kind="REFUSED")
    assert event.scope == project
    assert token.name in event.text


def test_an_agent_of_another_installation_is_told_both_account_ids(token: DelegateToken):
    problem = get_problem(build_registration(account_id="somebody-elses"), token.value)
    assert (problem.status, problem.code) == (403, "wrong_account")
    text = DelegateEvent.objects.get(kind="REFUSED").text
    assert "somebody-elses" in text
    assert build_registration()["account_id"] in text


def test_a_clock_that_is_far_off_is_told_with_the_refusal(token: DelegateToken):
    get_problem(build_registration(account_id="x", time=0), token.value)
    assert "behind" in DelegateEvent.objects.get(kind="REFUSED").text


@pytest.mark.parametrize(
    ("admission", "code"), [("REJECTED", "delegate_rejected"), ("DISABLED", "delegate_disabled")]
)
def test_what_people_decided_holds(token: DelegateToken, project: Scope, admission: str, code: str):
    delegate = make_delegate(project, "eu", admission=admission)
    problem = get_problem(build_registration(), token.value)
    assert (problem.status, problem.code) == (403, code)
    assert DelegateEvent.objects.get(kind="REFUSED").delegate == delegate


def test_nobody_can_be_the_built_in_delegate(account: Scope):
    assert get_problem(build_registration("built-in"), make_token(account).value).code == "name_taken"


def test_a_token_of_one_project_makes_nothing_of_another(token: DelegateToken, other_project: Scope):
    foreign_delegate = make_delegate(other_project, "eu")
    assert register_agent(token).instance.delegate_id != foreign_delegate.pk


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", 7),
        ("name", "e" * 129),
        ("name", "eu\u202egnp"),
        ("name", "eu\nasia"),
        ("name", "eu\0"),
        ("tags", "eu"),
        ("tags", ["a"] * 51),
        ("tags", ["ok", "\u202e"]),
        ("tags", [{"a": 1}]),
        ("hostname", "h" * 256),
        ("hostname", ["h"]),
        ("instance_key", "k" * 513),
        ("capacity", 0),
        ("capacity", True),
        ("capacity", 10**30),
        ("flavour", "v4"),
        ("kind", "BUILT_IN"),
        ("kind", ["ECS"]),
        ("ecs", "cluster"),
        ("ecs", {"cluster": 3}),
        ("time", "now"),
        ("time", -1),
    ],
)
def test_hostile_fields_are_refused_by_name(token: DelegateToken, field: str, value: Any):
    with pytest.raises(BadInput) as error:
        send_request("register", build_registration(**{field: value}), token.value)
    assert error.value.errors[0]["path"].split(".")[0] in (field, "cluster")
    assert not DelegateInstance.objects.exists()


def test_what_cannot_be_seen_in_a_hostname_is_shown_as_such(token: DelegateToken):
    assert register_agent(token, hostname="a\u202eb").instance.hostname == "a\ufffdb"


def test_refusals_are_slowed_down_and_another_name_is_not(token: DelegateToken):
    for _ in range(AGENT_REFUSALS):
        get_problem(build_registration(account_id="x"), token.value)
    problem = get_problem(build_registration(), token.value)
    assert isinstance(problem, TooOften)
    assert problem.retry_after > 0
    assert DelegateEvent.objects.filter(kind="REFUSED").count() == AGENT_REFUSALS
    assert isinstance(register_agent(token, "us"), Agent)
