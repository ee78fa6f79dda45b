"""An instance that cannot keep tasks apart runs scripts of one project in its life, unless it is let."""

import json
from pathlib import Path

import pytest
from pytest_django import Settings

from delegates import built_in_delegate
from delegates.agent.isolation import detect_isolation
from delegates.models import DelegateInstance, DelegateTask, DelegateToken
from delegates.operations.delegates import update_delegate
from delegates.protocol import leases
from delegates.protocol.leases import acquire_task
from rbac.models import Scope, User
from tests.delegates.protocol.fake_agents import Agent, build_registration, register_agent, send_request
from tests.fixtures.delegates import make_task, make_token
from web.clock import get_database_time
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db
SHELL, GIT, AWS = DelegateTask.Kind.SHELL, DelegateTask.Kind.GIT, DelegateTask.Kind.AWS


@pytest.fixture
def token(account: Scope) -> DelegateToken:
    """Of the account, whose delegates all projects use."""
    return make_token(account)


def offer_and_acquire(agent: Agent, scope: Scope, kind: str, **values: object) -> dict[str, object] | None:
    """Offer a task of a project to an agent; what it is given when it asks."""
    make_task(scope, kind=kind, offered_to=agent.instance.delegate, payload="{}", **values)
    tasks = agent.acquire()
    return tasks[0] if tasks else None


@pytest.mark.parametrize("fields", [{"isolation": "none"}, {}])
def test_without_isolation_scripts_of_one_project_are_all_that_run(
    token: DelegateToken, project: Scope, other_project: Scope, fields: dict[str, str]
):
    agent = register_agent(token, **fields)
    first = offer_and_acquire(agent, project, SHELL)
    assert first is not None
    assert DelegateInstance.objects.get().script_scope == project.path
    agent.complete(first)
    # Never another project's, also after the agent registered again; what runs no program may.
    agent = register_agent(token, **fields)
    for kind in (SHELL, DelegateTask.Kind.TERRAFORM, GIT):
        assert offer_and_acquire(agent, other_project, kind) is None
    assert offer_and_acquire(agent, other_project, AWS) is not None
    assert offer_and_acquire(agent, project, DelegateTask.Kind.TERRAFORM) is not None


def test_another_instance_of_the_delegate_may_work_for_another_project(
    token: DelegateToken, project: Scope, other_project: Scope
):
    first = register_agent(token, isolation="none")
    second = register_agent(token, isolation="none", instance_key="host-2/10.0.0.2", hostname="host-2")
    assert offer_and_acquire(first, project, SHELL) is not None
    assert offer_and_acquire(first, other_project, SHELL) is None
    assert second.acquire() != []


def test_an_instance_that_loses_the_race_for_a_script_stays_free(
    token: DelegateToken, project: Scope, other_project: Scope
):
    first = register_agent(token, isolation="none")
    second = register_agent(token, isolation="none", instance_key="host-2/10.0.0.2", hostname="host-2")
    task = make_task(project, kind=SHELL, offered_to=first.instance.delegate, payload="{}")
    assert acquire_task(first.instance, task.pk) is not None
    assert acquire_task(second.instance, task.pk) is None
    second.instance.refresh_from_db()
    assert second.instance.script_scope == ""
    assert offer_and_acquire(second, other_project, SHELL) is not None


def test_an_instance_stays_free_after_a_script_that_was_withdrawn(
    token: DelegateToken, project: Scope, other_project: Scope, monkeypatch: pytest.MonkeyPatch
):
    agent = register_agent(token, isolation="none")
    with monkeypatch.context() as withdrawal:
        withdrawal.setattr(leases, "_build_payload", lambda task: None)
        assert offer_and_acquire(agent, project, SHELL) is None
    assert DelegateInstance.objects.get().script_scope == ""
    assert offer_and_acquire(agent, other_project, SHELL) is not None
    with monkeypatch.context() as withdrawal:
        withdrawal.setattr(leases, "_build_payload", lambda task: None)
        assert offer_and_acquire(agent, other_project, SHELL) is None
    assert DelegateInstance.objects.get().script_scope == other_project.path


def test_a_script_waits_until_the_fetch_of_another_project_has_ended(
    token: DelegateToken, project: Scope, other_project: Scope
):
    agent = register_agent(token, isolation="none")
    fetch = offer_and_acquire(agent, other_project, GIT)
    assert fetch is not None
    assert offer_and_acquire(agent, project, SHELL) is None
    # It was refused and left nothing behind.
    assert DelegateInstance.objects.get().script_scope == ""
    agent.complete(fetch)
    assert agent.acquire() != []


@pytest.mark.parametrize("isolation", ["users_and_namespaces", "users", "namespaces"])
def test_with_isolation_projects_share_an_instance(
    token: DelegateToken, project: Scope, other_project: Scope, isolation: str
):
    agent = register_agent(token, isolation=isolation)
    assert offer_and_acquire(agent, project, SHELL) is not None
    assert offer_and_acquire(agent, other_project, SHELL) is not None
    assert DelegateInstance.objects.get().script_scope == ""


def test_an_administrator_may_let_projects_share_it(
    token: DelegateToken, project: Scope, other_project: Scope, admin: User
):
    agent = register_agent(token, isolation="none")
    assert offer_and_acquire(agent, project, SHELL) is not None
    assert offer_and_acquire(agent, other_project, SHELL) is None
    update_delegate(actor=admin, delegate=agent.instance.delegate, shares_scripts=True)
    assert agent.acquire() != []


def test_an_isolation_that_nobody_knows_is_refused(token: DelegateToken):
    with pytest.raises(
        BadInput, match="isolation must be one of users_and_namespaces, users, namespaces, none"
    ):
        send_request("register", build_registration(isolation="perfect"), token.value)


def test_the_workers_isolate_what_they_run_themselves_and_hide_the_state_of_slipway(
    project: Scope, settings: Settings, tmp_path: Path
):
    state = tmp_path / "state"
    state.mkdir()
    (state / "slipway.sqlite3").write_text("everybody's secrets")
    settings.EMBEDDED, settings.HOME, settings.GIT_CACHE = True, state, state / "repositories"
    worker = built_in_delegate.record_built_in_heartbeat(get_database_time())
    assert worker is not None
    assert worker.isolation == detect_isolation().level
    script = f"cat {state}/slipway.sqlite3; echo over"
    task = make_task(
        project, kind=SHELL, offered_to=worker.delegate, payload=json.dumps({"script": script}), owner=""
    )
    assert built_in_delegate.run_offered_task(task.pk)
    task.refresh_from_db()
    assert task.status == DelegateTask.Status.SUCCEEDED, task.error
    lines = [line["text"] for chunk in task.log_chunks.all() for line in json.loads(chunk.lines)]
    assert lines[-1] == "over"
    if detect_isolation().level.has_namespaces:
        assert "everybody's secrets" not in lines
