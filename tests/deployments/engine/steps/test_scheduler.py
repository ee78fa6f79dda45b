"""Which steps are current follows from the rows alone, whatever is nested in what."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.engine.steps.scheduler import StepFlow
from deployments.models import StepExecution, StepGroup
from steps.states import TERMINAL_STATUSES, Status
from tests.lanes import examples

STATUSES = st.sampled_from([Status.QUEUED, Status.RUNNING, Status.SUCCESS, Status.SKIPPED, Status.FAILED])
TREES = st.recursive(
    STATUSES,
    lambda children: st.tuples(st.booleans(), st.lists(children, min_size=1, max_size=3)),
    max_leaves=9,
)


@dataclass
class Rows:
    """A tree of statuses as the rows of a stage."""

    steps: list[StepExecution]
    groups: list[StepGroup]

    def add(self, tree: object, parent: StepGroup | None) -> None:
        if not isinstance(tree, tuple):
            row = StepExecution(pk=len(self.steps) + 1, position=len(self.steps), status=str(tree))
            row.group_id = parent.pk if parent else None
            self.steps.append(row)
            return
        kind = StepGroup.Kind.PARALLEL if tree[0] else StepGroup.Kind.GROUP
        group = StepGroup(pk=len(self.groups) + 1, position=len(self.steps), kind=kind)
        group.parent_id = parent.pk if parent else None
        self.groups.append(group)
        for child in tree[1]:
            self.add(child, group)


def build_rows(tree: object) -> Rows:
    rows = Rows([], [])
    rows.add(tree, None)
    return rows


def list_expected_positions(tree: object, count: list[int]) -> list[int]:
    """Return the positions of the current steps, by an independent implementation of the rule."""
    if not isinstance(tree, tuple):
        count[0] += 1
        return [] if tree in TERMINAL_STATUSES else [count[0] - 1]
    branches = [list_expected_positions(child, count) for child in tree[1]]
    open_branches = [branch for branch in branches if branch]
    return (
        [position for branch in open_branches for position in branch]
        if tree[0]
        else open_branches[0]
        if open_branches
        else []
    )


@settings(max_examples=examples(400))
@given(st.lists(TREES, min_size=1, max_size=4))
def test_of_a_sequence_the_first_open_part_is_current_and_of_a_parallel_each_open_branch(
    parts: list[object],
) -> None:
    rows = Rows([], [])
    for part in parts:
        rows.add(part, None)
    current_steps = StepFlow(rows.steps, rows.groups).list_current()
    assert [step.position for step in current_steps] == list_expected_positions((False, parts), [0])


def test_a_step_for_failures_waits_where_its_unbegun_groups_are_for_failures_too() -> None:
    rows = build_rows((False, [Status.QUEUED]))
    (step,), (group,) = rows.steps, rows.groups
    step.when = {"stageStatus": "Failure", "condition": None}
    assert not StepFlow(rows.steps, rows.groups).has_steps_after_failure()
    group.status = Status.RUNNING
    assert StepFlow(rows.steps, rows.groups).has_steps_after_failure()
