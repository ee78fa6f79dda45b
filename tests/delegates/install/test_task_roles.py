"""Task roles of delegates on ECS: the permissions that the uses of a delegate need, and no others."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from delegates.install import InvalidSpec, write_spec
from delegates.install.wizard import WizardAnswers
from delegates.models import Delegate
from rbac.models import Scope, User
from tests.delegates.install.spec_variants import build_request
from tests.delegates.install.test_wizard import build_form

Browse = Callable[[User], Client]


def write(**answers: Any) -> Any:
    chosen = WizardAnswers(aws_account_id="123456789012", **answers).with_own_role("eu")
    return write_spec(chosen.completed(build_request(), name="eu", tags=(), size=""))


def test_a_task_role_is_allowed_what_its_delegate_is_for() -> None:
    spec = write(uses=("ecs", "run-task"))
    assert spec.task_definition["taskRoleArn"] == "arn:aws:iam::123456789012:role/slipway-eu"
    base, tasks = json.loads(spec.files["task-role-policy.json"])["Statement"]
    assert "ecs:UpdateService" in base["Action"]
    assert tasks["Action"] == ["ecs:RunTask", "ecs:StopTask"]
    commands = [command.command for command in spec.commands]
    assert any("put-role-policy --role-name slipway-eu" in command for command in commands)
    assert not any("create-policy" in command or "HarnessECS" in command for command in commands)
    assert "harness-ecs-policy.json" not in spec.files


def test_without_a_use_there_is_no_task_role() -> None:
    assert "taskRoleArn" not in write().task_definition
    assert WizardAnswers(target="DOCKER", uses=("ecs",)).with_own_role("eu").task_role == ""


def test_a_task_role_that_exists_is_not_created_and_its_permissions_are_offered_apart() -> None:
    for uses, change in ((("ecs",), "put-role-policy"), ((), "attach-role-policy")):
        spec = write(task_role="ours", uses=uses)
        assert spec.task_definition["taskRoleArn"].endswith(":role/ours")
        assert not any("--role-name ours" in command.command for command in spec.list_commands("create"))
        offered = [command.command for command in spec.list_commands("permissions")]
        assert any(f"{change} --role-name ours" in command for command in offered)


def test_the_own_role_goes_with_the_last_use() -> None:
    answers = WizardAnswers(uses=("ecs",)).with_own_role("eu")
    assert replace(answers, uses=()).with_own_role("eu").task_role == ""
    assert replace(answers, uses=(), task_role="ours").with_own_role("eu").task_role == "ours"


def test_a_use_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="not known"):
        write(uses=("everything",))


@pytest.mark.django_db
def test_the_uses_of_the_form_belong_to_the_delegate(project: Scope, admin: User, browse: Browse) -> None:
    client = browse(admin)
    assert 'value="ecs" id="delegate-uses_0" checked' in client.get("/delegates/new/").content.decode()
    client.post("/delegates/new/", build_form(project, uses=["ecs", "logs"]))
    spec = Delegate.objects.get(name="eu").spec
    assert (spec["uses"], spec["task_role"]) == (["ecs", "logs"], "slipway-eu")
