"""Configurations that agents receive: whose secrets they have, who gets none, and reports of their runs."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from connectors.models import Secret
from connectors.operations import create_secret, update_secret
from delegates.agent import FEATURES
from delegates.models import ConfigurationRun, Delegate, DelegateConfiguration, DelegateEvent, DelegateToken
from delegates.operations.configuration_secrets import run_scripts_again
from delegates.operations.configurations import create_configuration
from delegates.operations.delegates import disable_delegate, enable_delegate
from delegates.protocol.configurations import SECRETS_FEATURE
from delegates.protocol.heartbeats import Heartbeat, record_heartbeats
from rbac.models import Scope, User
from tests.delegates.protocol.fake_agents import Agent, build_registration, register_agent, send_request
from tests.fixtures.delegates import make_delegate
from tests.secret_watch.marker import planted
from web.http.problems import BadInput, Conflict, ServiceUnavailable

SCRIPT = (
    'login --user deploy "<+secrets.getValue("account.token")>" && echo <+secrets.getValue("account.token")>'
)
VALUE = planted("-of-the-registry")


@pytest.fixture
def secret(account: Scope, admin: User) -> Secret:
    return create_secret(actor=admin, scope=account, identifier="token", name="Token", value=VALUE)


@pytest.fixture
def tools(secret: Secret, project: Scope, admin: User) -> DelegateConfiguration:
    return create_configuration(actor=admin, scope=project, identifier="tools", name="Tools", script=SCRIPT)


@pytest.fixture
def agent(tools: DelegateConfiguration, token: DelegateToken) -> Agent:
    make_delegate(tools.scope, "eu", configuration=tools)
    return register_agent(token, features=list(FEATURES))


def beat(agent: Agent, revision: str | None = None) -> Mapping[str, Any] | None:
    """Send a heartbeat, and return the configuration of the answer; older agents report no revision."""
    beats = {agent.instance.pk: Heartbeat(agent.instance.pk, configuration_revision=revision)}
    answer = record_heartbeats(beats)[agent.instance.pk]
    assert isinstance(answer, Mapping)
    configuration: Mapping[str, Any] | None = answer["configuration"]
    return configuration


def take_secrets(agent: Agent) -> Mapping[str, Any]:
    """Take the values of the script of the agent's configuration."""
    delegate = Delegate.objects.get(pk=agent.instance.delegate_id)
    return agent.post("configuration/secrets", {"configuration_id": delegate.configuration_id})


def lose_secret(secret: Secret) -> None:
    """Delete a secret that is in use, which no operation does: the database was restored or edited."""
    run_scripts_again(secret)
    secret.delete()


def list_refusals() -> list[str]:
    events = DelegateEvent.objects.filter(kind=DelegateEvent.Kind.CONFIGURATION).order_by("pk")
    return [event.text for event in events]


def test_the_feature_is_one_of_this_release() -> None:
    assert SECRETS_FEATURE in FEATURES


def test_the_values_are_variables_of_the_script_that_an_agent_takes(
    tools: DelegateConfiguration, token: DelegateToken
) -> None:
    make_delegate(tools.scope, "eu", configuration=tools)
    content = send_request("register", build_registration(features=list(FEATURES)), token.value).content
    configuration = content["configuration"]
    assert configuration["script"] == 'login --user deploy "${SLIPWAY_VALUE_1}" && echo ${SLIPWAY_VALUE_1}'
    assert VALUE not in str(content)
    answer = send_request("configuration/secrets", {"configuration_id": tools.pk}, content["session"]).content
    assert answer["environment"] == {"SLIPWAY_VALUE_1": VALUE}
    assert answer["secrets_revision"] == configuration["secrets_revision"]


def test_a_new_value_is_announced_to_the_agents_once(agent: Agent, secret: Secret, admin: User) -> None:
    assert beat(agent) is None
    former = take_secrets(agent)
    update_secret(actor=admin, secret=secret, value=planted("-of-today"))
    configuration = beat(agent)
    assert configuration is not None
    assert configuration["secrets_revision"] not in ("", former["secrets_revision"])
    assert take_secrets(agent)["environment"] == {"SLIPWAY_VALUE_1": planted("-of-today")}
    assert beat(agent) is None
    # A change of the name alone concerns no agent.
    update_secret(actor=admin, secret=secret, name="Registry")
    assert beat(agent) is None
    assert list_refusals() == []


def test_a_disabled_delegate_gets_no_script_and_no_values_until_it_is_enabled(
    agent: Agent, secret: Secret, admin: User
) -> None:
    delegate = disable_delegate(actor=admin, delegate=agent.instance.delegate)
    update_secret(actor=admin, secret=secret, value=planted("-of-today"))
    assert (beat(agent), beat(agent, revision="")) == (None, None)
    with pytest.raises(ServiceUnavailable):
        take_secrets(agent)
    enable_delegate(actor=admin, delegate=delegate)
    assert beat(agent, revision="") is not None
    assert take_secrets(agent)["environment"] == {"SLIPWAY_VALUE_1": planted("-of-today")}


def test_a_configuration_in_a_lost_answer_is_sent_again_until_the_agent_has_it(
    agent: Agent, secret: Secret, admin: User
) -> None:
    first = beat(agent, revision="")
    assert first is not None
    assert beat(agent, revision=first["revision"]) is None
    update_secret(actor=admin, secret=secret, value=planted("-of-today"))
    lost, second = (beat(agent, revision=first["revision"]) for _ in range(2))
    assert second is not None
    assert lost == second
    assert second["revision"] != first["revision"]
    assert beat(agent, revision=second["revision"]) is None


def test_a_refused_script_is_refused_once_for_each_revision(agent: Agent, secret: Secret) -> None:
    lose_secret(secret)
    refused = beat(agent, revision="")
    assert refused is not None
    assert refused["script"] == ""
    count = len(list_refusals())
    assert beat(agent, revision=refused["revision"]) is None
    assert len(list_refusals()) == count


def test_an_agent_that_cannot_hide_values_gets_no_script_and_an_event_says_so(
    tools: DelegateConfiguration, token: DelegateToken
) -> None:
    make_delegate(tools.scope, "eu", configuration=tools)
    agent = register_agent(token, features=["doctor"])
    (refusal,) = list_refusals()
    assert refusal.startswith("host-1 did not get the script of Tools: it uses secrets")
    assert refusal.endswith("Upgrade the delegate.")
    with pytest.raises(Conflict, match="Upgrade the delegate"):
        take_secrets(agent)


def test_no_script_is_sent_without_its_secret(agent: Agent, secret: Secret) -> None:
    beat(agent)
    lose_secret(secret)
    assert (beat(agent) or {})["script"] == ""
    with pytest.raises(Conflict, match="No secret"):
        take_secrets(agent)
    refusal = list_refusals()[0]
    assert "No secret account.token in account/default/demo" in refusal


def test_a_nearer_secret_of_the_same_name_replaces_the_value(
    agent: Agent, tools: DelegateConfiguration, admin: User
) -> None:
    DelegateConfiguration.objects.filter(pk=tools.pk).update(script='echo <+secrets.getValue("token")>')
    beat(agent)
    create_secret(
        actor=admin, scope=tools.scope, identifier="token", name="Nearer", value=planted("-of-the-project")
    )
    assert beat(agent) is not None
    assert take_secrets(agent)["environment"] == {"SLIPWAY_VALUE_1": planted("-of-the-project")}


@pytest.mark.parametrize("misplaced", ["primary", "of another project"])
def test_values_are_not_sent_to_delegates_that_share_them_by_no_decision(
    agent: Agent, tools: DelegateConfiguration, other_project: Scope, misplaced: str
) -> None:
    """Rows that no operation writes: a restored or edited database."""
    beat(agent)
    if misplaced == "primary":
        primary = DelegateConfiguration.objects.get(is_primary=True)
        DelegateConfiguration.objects.filter(pk=primary.pk).update(script=SCRIPT, updated_at=timezone.now())
        Delegate.objects.filter(pk=agent.instance.delegate_id).update(configuration=primary)
    else:
        DelegateConfiguration.objects.filter(pk=tools.pk).update(
            scope=other_project, updated_at=timezone.now()
        )
    assert (beat(agent) or {})["script"] == ""
    with pytest.raises(Conflict, match="not shared with"):
        take_secrets(agent)


def test_the_secrets_of_another_configuration_are_not_given(
    agent: Agent, tools: DelegateConfiguration, admin: User
) -> None:
    other = create_configuration(
        actor=admin, scope=tools.scope, identifier="other", name="Other", script=SCRIPT
    )
    with pytest.raises(BadInput, match="not the configuration of this delegate"):
        agent.post("configuration/secrets", {"configuration_id": other.pk})


def test_many_agents_of_a_configuration_cost_the_queries_of_one(
    tools: DelegateConfiguration, token: DelegateToken, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    make_delegate(tools.scope, "eu", configuration=tools)
    agents = [register_agent(token, instance_key=f"task/{n}", features=list(FEATURES)) for n in range(5)]
    for number in (1, 5):
        Delegate.objects.update(updated_at=timezone.now())
        beats = {agent.instance.pk: Heartbeat(agent.instance.pk) for agent in agents[:number]}
        with django_assert_num_queries(7):
            answers = record_heartbeats(beats)
        assert all(isinstance(answer, Mapping) and answer["configuration"] for answer in answers.values())


def test_values_in_the_report_of_a_run_are_hidden_once_more(
    agent: Agent, tools: DelegateConfiguration
) -> None:
    body = {"configuration_id": tools.pk, "exit_code": 0, "output": f"token is {VALUE}\nready"}
    agent.post("configuration", body)
    assert ConfigurationRun.objects.get().output == "token is •••\nready"


def test_the_report_of_a_run_is_hidden_while_its_secret_cannot_be_read(
    agent: Agent, tools: DelegateConfiguration, secret: Secret
) -> None:
    lose_secret(secret)
    agent.post("configuration", {"configuration_id": tools.pk, "exit_code": 0, "output": f"got {VALUE}"})
    output = ConfigurationRun.objects.get().output
    assert VALUE not in output
    assert "No secret account.token" in output
