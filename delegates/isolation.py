"""Which projects an instance that cannot keep tasks apart works for: scripts of one, in all its life."""

from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet

from delegates.models import DelegateInstance, DelegateTask


def is_bound(instance: DelegateInstance) -> bool:
    """Return whether an instance may run scripts of one project only."""
    return not instance.is_isolated and not instance.delegate.shares_scripts


def without_other_projects(
    instance: DelegateInstance, tasks: QuerySet[DelegateTask]
) -> QuerySet[DelegateTask]:
    """Return the tasks that an instance may take, whatever it has run before."""
    current = DelegateInstance.objects.filter(pk=instance.pk).values_list("script_scope", flat=True).first()
    if not current or not is_bound(instance):
        return tasks
    return tasks.filter(~Q(kind__in=DelegateTask.ISOLATED) | Q(scope__path=current))


def may_run_beside_others(instance: DelegateInstance, task_id: UUID) -> bool:
    """Bind an instance to the project of a task that it is about to take; False where it must not take it.

    Call within the transaction that takes the task; where this answers False, that is rolled back.
    """
    if not is_bound(instance):
        return True
    known = DelegateTask.objects.filter(pk=task_id).values_list("kind", "scope__path").first()
    if known is None or known[0] not in DelegateTask.ISOLATED:
        return True
    kind, project = known
    is_script = kind in DelegateTask.RUNS_CODE
    # Also where nothing changes: who takes a script and who takes a fetch at the same moment come one by one.
    free = DelegateInstance.objects.filter(pk=instance.pk, script_scope__in=("", project))
    allowed = bool(free.update(script_scope=project if is_script else F("script_scope")))
    if not allowed or (is_script and _runs_for_others(instance, project)):
        transaction.set_rollback(True)
        return False
    return True


def _runs_for_others(instance: DelegateInstance, project: str) -> bool:
    running = DelegateTask.objects.filter(
        instance=instance, status=DelegateTask.Status.STARTED, kind__in=DelegateTask.ISOLATED
    )
    return running.exclude(scope__path=project).exists()
