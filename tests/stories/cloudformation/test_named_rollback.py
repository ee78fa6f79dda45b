"""A rollback step that names what it takes back leaves everything else of its stage as it is."""

import pytest

from deployments.execution.undo_plan import build_undo_plan
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.stories.cloudformation.conftest import clusters, create_step, stack
from tests.stories.cloudformation.test_rollback_stack import FAIL
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db(transaction=True)


def _named(name: str) -> str:
    step = create_step(
        name=name, more=f"provisionerIdentifier: {name}", parameters=f"{{name: ClusterName, value: {name}}}"
    )
    return step.replace("stackName: shop", f"stackName: {name}")


def _text(*back: str) -> str:
    text = pipeline_text(stage_text(_named("one") + _named("two") + FAIL))
    steps = "".join(
        f"{' ' * 14}- step: {{identifier: back{n}, type: RollbackStack, "
        f"spec: {{provisionerIdentifier: {name}}}}}\n"
        for n, name in enumerate(back)
    )
    return text.replace("rollbackSteps:\n", f"rollbackSteps:\n{steps}", 1)


def test_only_what_has_the_name_is_taken_back(write: Write, drive: Drive) -> None:
    execution = write(_text("one")).run()
    assert execution.status == "FAILED"
    assert (stack(drive, "one")["StackStatus"], stack(drive, "two")["StackStatus"]) == (
        "DELETE_COMPLETE",
        "CREATE_COMPLETE",
    )
    assert {"two"} <= set(clusters(drive))
    assert "one" not in clusters(drive)


def test_each_name_may_have_a_rollback_of_its_own(write: Write, drive: Drive) -> None:
    execution = write(_text("two", "one")).run()
    assert execution.outcome == "ROLLED_BACK"
    assert {stack(drive, name)["StackStatus"] for name in ("one", "two")} == {"DELETE_COMPLETE"}
    assert build_undo_plan(execution)["changes"] == []


def test_a_name_that_no_step_has_is_refused_when_saved(write: Write, drive: Drive) -> None:
    with pytest.raises(BadInput) as refused:
        write(_text("three"))
    assert "no step undone by RollbackStack has the provisionerIdentifier three" in str(refused.value.errors)
