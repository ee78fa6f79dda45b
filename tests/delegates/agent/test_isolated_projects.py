"""A real agent that two projects share: what their scripts find of each other, and what outlives them."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from delegates.models import DelegateInstance, DelegateTask, get_account_id
from delegates.operations.tasks import abort_task, submit_task
from delegates.operations.tokens import create_token
from rbac.models import Scope, User
from tests.delegates.agent.held_tasks import AS_ON_FARGATE, choose_duration, list_sleepers
from tests.delegates.agent.test_with_manager import read_log, wait_for_end
from tests.fixtures.agents import Manager, StartAgent
from tests.fixtures.processes import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(os.geteuid() != 0, reason="gives and takes rights that only root has"),
]
Submit = Callable[..., DelegateTask]
SECRET_SCRIPT = (
    'echo "$SECRET" > /tmp/of-$$; echo "$SECRET" > ~/left; echo "$HOME"; sleep {nap} & wait; echo over'
)
SEARCH_SCRIPT = """
for at in /proc/[0-9]*/environ; do
  if grep -qs "$ONE$TWO" "$at"; then echo "reads $at"; fi
done
for at in "$FOLDER"/* /tmp/*; do
  if grep -qs "$ONE$TWO" "$at"; then echo "finds it in $at"; fi
done
for at in /proc/[0-9]*; do
  pid=${at#/proc/}
  if [ "$pid" != $$ ] && [ "$pid" != "$PPID" ] && grep -qs "$NAP" "$at/cmdline"; then
    kill -9 "$pid" 2>/dev/null && echo "ended $pid"
  fi
done
setsid sleep {nap} >/dev/null 2>&1 &
(setsid sh -c 'sleep {nap} & sleep {nap} &' >/dev/null 2>&1 &)
sleep 0.5
echo looked
"""


@pytest.fixture
def submit(account: Scope, live_broker: str, admin: User) -> Submit:
    def submit_script(project: Scope, script: str, **environment: str) -> DelegateTask:
        payload: dict[str, Any] = {"script": script, "environment": environment}
        return submit_task(
            scope=project, kind=DelegateTask.Kind.SHELL, title="a test", payload=payload, selectors=["ecs"]
        )

    return submit_script


@pytest.mark.parametrize(
    ("command_prefix", "isolation"),
    [((), "users_and_namespaces"), (AS_ON_FARGATE, "users")],
    ids=["root", "Fargate"],
)
def test_scripts_of_two_projects_at_once_find_nothing_of_each_other(
    manager: Manager,
    start_agent: StartAgent,
    submit: Submit,
    account: Scope,
    project: Scope,
    other_project: Scope,
    admin: User,
    command_prefix: tuple[str, ...],
    isolation: str,
) -> None:
    token = create_token(actor=admin, scope=account, name="shared")
    environment = {
        "HARNESS_ACCOUNT_ID": get_account_id(),
        "HARNESS_TOKEN": token.value,
        "HARNESS_URL": manager.url,
        "HARNESS_NAME": "shared",
        "HARNESS_TAGS": "ecs",
    }
    start_agent(environment, command_prefix)
    instance = DelegateInstance.objects.filter(delegate__name="shared")
    wait_until(instance.exists, "the agent")
    assert instance.get().isolation == isolation

    secret, duration, escaped_duration = "canary" + os.urandom(9).hex(), choose_duration(), choose_duration()
    first = submit(project, SECRET_SCRIPT.format(nap=duration), SECRET=secret)
    wait_until(lambda: read_log(first), "the first script")
    (folder,) = read_log(first)
    search_script = SEARCH_SCRIPT.replace("{nap}", escaped_duration)
    marks = {"ONE": secret[:12], "TWO": secret[12:], "FOLDER": folder, "NAP": duration}
    second = submit(other_project, search_script, **marks)
    wait_until(lambda: list_sleepers(escaped_duration), "what leaves the session of the second script")
    assert wait_for_end(second).status == DelegateTask.Status.SUCCEEDED, second.error
    assert read_log(second) == ["looked"]
    assert not list_sleepers(escaped_duration)
    # The first one runs on, undisturbed.
    first.refresh_from_db()
    assert first.status == DelegateTask.Status.STARTED
    assert list_sleepers(duration)
    assert read_log(first) == [folder]
    abort_task(actor=admin, task=first)
    assert wait_for_end(first).status == DelegateTask.Status.ABORTED
    assert not list_sleepers(duration)
