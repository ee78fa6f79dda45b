"""The steps that make the infrastructure of a stage are told from those that deploy to it."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from deployments.execution.documents import build_execution_document
from deployments.models import Execution
from rbac.models import User
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.stories.provisioning.conftest import OUTPUTS, Place, script_step, staged, writing

pytestmark = pytest.mark.django_db(transaction=True)


def _heads(execution: Execution, person: User) -> list[tuple[str, list[str]]]:
    steps: list[dict[str, Any]] = build_execution_document(execution, person)["stages"][0]["steps"]
    return [(step["type"], [head["text"] for head in step["heads"]]) for step in steps]


def test_an_execution_has_headings_for_its_provisioner_and_its_deployment(
    write: Write, drive: Drive, place: Place
) -> None:
    place()
    provisioner_steps = script_step(writing(**OUTPUTS)) + script_step("echo more", "more")
    ready = write(pipeline_text(staged(provisioner_steps)))
    execution = ready.start()
    assert _heads(execution, ready.deployer) == [
        ("ShellScriptProvision", ["Provisioner"]),
        ("ShellScriptProvision", []),
        ("EcsRollingDeploy", ["Deployment"]),
        ("EcsRollingRollback", []),
    ]
    client = Client()
    client.force_login(User.objects.get(username="admin"))
    page = client.get(reverse("execution", args=[execution.pk])).content.decode()
    assert page.index("Provisioner</li>") < page.index("Deployment</li>") < page.index("Rollback</h3>")


def test_a_stage_without_a_provisioner_has_no_such_headings(write: Write, drive: Drive) -> None:
    ready = write(pipeline_text(stage_text(DEPLOY)))
    assert not any(heads for _, heads in _heads(ready.start(), ready.deployer))
