"""Groups, secrets and connectors that steps name: placed at the step, and looked up once."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pipelines.operations.pipelines import check_pipeline
from rbac.models import Scope, User
from tests.api.sample_project import PIPELINE, World, make_world

pytestmark = pytest.mark.django_db
_APPROVAL = (
    "- step: {type: HarnessApproval, identifier: ask, "
    "spec: {approvers: {userGroups: [nobody], minimumCount: 1}}}"
)
_SECRET = (
    "- step: {type: ShellScript, identifier: %s, spec: {shell: Bash, source: {type: Inline, spec: {script: "
    "'echo <+secrets.getValue(\"nowhere\")>'}}}}"
)
_CONNECTOR = (
    "- step: {type: TerraformCloudRun, identifier: %s, spec: {provisionerIdentifier: %s, "
    "connectorRef: nowhere, organization: acme, workspace: web, runType: PlanAndApply}}"
)
_DEPLOY = "- step: {type: EcsRollingDeploy, identifier: deploy}"


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


def _build_text(*steps: str) -> str:
    lines = [_DEPLOY, "- stepGroup:", "    identifier: inside", "    steps:"]
    lines += [f"      {step}" for step in steps]
    text = PIPELINE.replace("          strategy: Rolling\n", "          execution:\n            steps:\n")
    return text + "".join(f"              {line}\n" for line in lines)


def _list_errors(text: str, world: World, admin: User) -> list[dict[str, Any]]:
    return list(check_pipeline(text, world.scope, admin)["errors"])


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (_APPROVAL, "no user group nobody"),
        (_SECRET % "x", "No secret nowhere"),
        (_CONNECTOR % ("x", "x"), "connector nowhere"),
    ],
)
def test_what_a_step_of_a_group_names_is_missing_at_this_step(
    step: str, message: str, world: World, admin: User
) -> None:
    text = _build_text(step)
    (error,) = [error for error in _list_errors(text, world, admin) if message in error["message"]]
    assert ".execution.steps.1.stepGroup.steps.0.step" in error["path"]
    assert text.splitlines()[error["line"] - 1].strip() == step


@pytest.mark.parametrize("step", [_SECRET, _CONNECTOR])
def test_more_steps_look_their_secrets_and_connectors_up_with_no_more_queries(
    step: str, world: World, admin: User
) -> None:
    counts = []
    for number in (1, 8):
        text = _build_text(*(step.replace("%s", f"s{n}") for n in range(number)))
        with CaptureQueriesContext(connection) as queries:
            errors = _list_errors(text, world, admin)
        assert len(errors) == number
        counts.append(len(queries))
    assert counts[0] == counts[1]
