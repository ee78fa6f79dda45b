"""The page of what works through delegates has everything that exists."""

from connectors.models import Connector
from connectors.secret_managers.base import get_managers
from delegates.models import Delegate, DelegateTask
from ops.documentation.delegate_support import CONNECTOR_WORK, generate, is_supported, list_step_work
from steps.kinds.registry import get_step_kinds


def test_every_task_step_connector_and_secret_manager_has_a_row() -> None:
    (page,) = generate()
    first_cells = [line.split(" | ")[0].removeprefix("| ") for line in page.text.splitlines()]
    titles = [
        *(kind.label for kind in DelegateTask.Kind),
        *(f"[{kind.title}](steps/{kind.type}.md)" for kind in get_step_kinds().values()),
        *(kind.label for kind in Connector.Kind),
        *(manager.title for manager in get_managers().values()),
    ]
    assert [title for title in titles if title not in first_cells] == []


def test_only_the_built_in_delegate_lacks_something() -> None:
    lacking = {
        (kind.value, work.value)
        for kind in Delegate.Kind
        for work in DelegateTask.Kind
        if not is_supported(kind, work)
    }
    assert lacking == {("BUILT_IN", "shell"), ("BUILT_IN", "terraform"), ("BUILT_IN", "doctor")}


def test_steps_that_run_code_always_need_a_delegate() -> None:
    for kind in get_step_kinds().values():
        if set(list_step_work(kind)) & set(DelegateTask.RUNS_CODE):
            assert kind.runs_on_delegates, kind.type
    assert set(CONNECTOR_WORK) == set(Connector.Kind)
