"""The checklist that proves a rollback: what each undone action found before, beside what is there now."""

from collections.abc import Iterator
from datetime import timedelta

from deployments.engine.running import Failed, Finished, Wait, run
from deployments.engine.shared import Shared
from deployments.engine.telling import say
from deployments.engine.undo_rows import UNIT, partners, phase_of
from deployments.models import ActionRun, CheckedItem, StepExecution
from steps.actions.base import Action, Check, Rollout, known_actions
from steps.states import ActionState, Status


def verify(shared: Shared, step: StepExecution) -> timedelta | None:
    """The checklist: what each undone action found before, beside what is there now."""
    checks: list[Check] = []
    undone = 0
    for partner in reversed(partners(shared, step)):
        for row in shared.rows.actions_of(partner):
            if row.state not in (ActionState.UNDONE, ActionState.NOT_RESTORED):
                continue
            undone += 1
            if row.name not in known_actions():
                checks.append(Check(row.title, "as before", "not known", ok=False, note=row.detail))
                continue
            end = run(shared, row, phase_of("verify", row), _checklist, told_in=step)
            if isinstance(end, Wait):
                return end.time
            checks += _checks_of(row, end)
            if isinstance(end, Finished):
                end.rollout.finish(keep_progress=False)
                shared.save()
    _conclude(shared, step, checks, undone)
    return None


def _checklist(action: Action, rollout: Rollout) -> list[Check]:
    return action.checklist(rollout)


def _checks_of(row: ActionRun, end: object) -> list[Check]:
    if isinstance(end, Finished):
        checks: list[Check] = list(end.value)  # type: ignore[call-overload]
        return checks
    why = end.failure.message if isinstance(end, Failed) else "it could not be read"
    return [Check(row.title, "as before", "not known", ok=False, note=why)]


def _conclude(shared: Shared, step: StepExecution, checks: list[Check], undone: int) -> None:
    broken = [check for check in checks if not check.ok]
    rows = [row for partner in partners(shared, step) for row in shared.rows.actions_of(partner)]
    restored = not broken and all(row.state != ActionState.NOT_RESTORED for row in rows)
    status = Status.SUCCESS if restored else Status.FAILED
    shared.change(step, status=status, ended_at=shared.world.now())
    for line, level in _closing_lines(checks, undone, restored=restored):
        say(shared, step, line, level, UNIT)
    with shared.commit():
        CheckedItem.objects.bulk_create(
            CheckedItem(
                step=step,
                attempt=step.attempt,
                position=index,
                subject=check.subject,
                expected=check.expected,
                found=check.found,
                ok=check.ok,
                note=check.note,
            )
            for index, check in enumerate(checks)
        )


def _closing_lines(checks: list[Check], undone: int, *, restored: bool) -> Iterator[tuple[str, str]]:
    """The lines of the checklist, each with the level that fits it."""
    if not undone:
        yield "Nothing was changed in AWS, so there is nothing to undo.", "success" if restored else "error"
        return
    for check in checks:
        note = f" ({check.note})" if check.note else ""
        if check.ok:
            yield f"ok: {check.subject}: {check.found}{note}", "info"
        else:
            expected = f", expected {check.expected}"
            yield f"NOT RESTORED: {check.subject}: found {check.found}{expected}{note}", "error"
    if restored:
        yield "Rollback verified.", "success"
    else:
        yield "The rollback is not complete: see the lines above.", "error"
