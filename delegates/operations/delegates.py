"""Operations on delegates: update, approve, reject, disable, enable, drain, restore, delete."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q

from delegates.connectivity import AWAY_AFTER
from delegates.install.specs import list_tag_problems
from delegates.live import publish_delegates_changed
from delegates.models import Delegate, DelegateConfiguration, DelegateEvent, DelegateInstance, DelegateTask
from delegates.operations.configuration_secrets import require_secret_access
from delegates.protocol.notices import notify_configuration, notify_drain, notify_ended
from delegates.queries.history import get_delegate_uses
from guards.limits import DESCRIPTION_CHARACTERS
from guards.text import find_control_problem
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import require
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict

EDIT = "core_delegate_edit"
DELETE = "core_delegate_delete"
Admission = Delegate.Admission
Kind = DelegateEvent.Kind


def update_delegate(
    *,
    actor: User,
    delegate: Delegate,
    description: str | None = None,
    tags: Sequence[str] | None = None,
    configuration: DelegateConfiguration | None = None,
    shares_scripts: bool | None = None,
) -> Delegate:
    """Update the fields that users edit; None leaves a field unchanged.

    Raises `BadInput`, or `MissingAccess` to a secret of another configuration.
    """
    require(actor, EDIT, delegate)
    before = _build_audit_values(delegate)
    if description is not None:
        delegate.description = _clean_text(description)
    if tags is not None:
        delegate.tags = clean_tags(tags)
    if configuration is not None and configuration.pk != delegate.configuration_id:
        delegate.configuration = _validate_configuration(actor, delegate, configuration)
    if shares_scripts is not None:
        delegate.shares_scripts = shares_scripts
    if _build_audit_values(delegate) == before:
        return delegate
    with transaction.atomic():
        values = {
            "description": description,
            "tags": tags,
            "configuration": configuration,
            "shares_scripts": shares_scripts,
        }
        # Fields that stay unchanged may have been changed by somebody else since they were read.
        changed = [name for name, value in values.items() if value is not None]
        delegate.save(update_fields=[*changed, "updated_at"])
        record_audit_entry(
            actor=actor,
            action="delegate.update",
            thing=delegate,
            before=before,
            after=_build_audit_values(delegate),
        )
        publish_delegates_changed(delegate.pk)
        notify_configuration([delegate.pk])
    return delegate


def approve_delegate(*, actor: User, delegate: Delegate) -> Delegate:
    """Approve a delegate that waits for approval or was rejected. Raises `Conflict`."""
    return _set_admission(
        actor, delegate, Admission.ENABLED, Kind.APPROVED, (Admission.PENDING_APPROVAL, Admission.REJECTED)
    )


def reject_delegate(*, actor: User, delegate: Delegate) -> Delegate:
    """Reject a delegate that waits for approval, and notify its agents. Raises `Conflict`."""
    return _set_admission(actor, delegate, Admission.REJECTED, Kind.REJECTED, (Admission.PENDING_APPROVAL,))


def disable_delegate(*, actor: User, delegate: Delegate) -> Delegate:
    """Disable a delegate; its running tasks finish. Raises `Conflict`."""
    return _set_admission(actor, delegate, Admission.DISABLED, Kind.DISABLED, (Admission.ENABLED,))


def enable_delegate(*, actor: User, delegate: Delegate) -> Delegate:
    """Enable a disabled or draining delegate. Raises `Conflict` in any other state."""
    if delegate.admission == Admission.ENABLED and delegate.draining:
        return _set_draining(actor, delegate, draining=False)
    return _set_admission(actor, delegate, Admission.ENABLED, Kind.ENABLED, (Admission.DISABLED,))


def drain_delegate(*, actor: User, delegate: Delegate) -> Delegate:
    """Drain a delegate: it finishes its tasks and refuses new ones. Raises `Conflict` if it is inactive."""
    if delegate.admission != Admission.ENABLED or delegate.draining:
        raise Conflict(f"The delegate {delegate} {_build_state(delegate)}: there is nothing to drain.")
    return _set_draining(actor, delegate, draining=True)


def restore_delegate(*, actor: User, delegate: Delegate) -> Delegate:
    """Take a delegate out of the archive, for another period of absence. Raises `Conflict`."""
    require(actor, EDIT, delegate)
    with transaction.atomic():
        now = get_database_time()
        archived = Delegate.objects.filter(pk=delegate.pk, archived_at__isnull=False)
        if not archived.update(archived_at=None, away_since=now):
            raise Conflict(f"The delegate {delegate} is not archived: there is nothing to restore.")
        record_audit_entry(actor=actor, action="delegate.restore", thing=delegate)
        record_decision_event(delegate, Kind.ENABLED, f"Taken out of the archive by {actor}.")
        publish_delegates_changed(delegate.pk)
    delegate.archived_at = None
    return delegate


def delete_delegate(*, actor: User, delegate: Delegate, although_used: bool = False) -> None:
    """Delete a delegate with its instances, log and events; its tasks stay.

    An agent that still runs registers as a new delegate. Raises `Conflict` for running tasks and for the
    built-in delegate. Raises `Conflict` for tags that connectors select, unless `although_used`.
    """
    require(actor, DELETE, delegate)
    if delegate.is_built_in:
        raise Conflict("The built-in delegate cannot be deleted. Disable it instead.")
    with transaction.atomic():
        Delegate.objects.select_for_update().get(pk=delegate.pk)
        if problem := describe_open_tasks(delegate):
            raise Conflict(problem)
        if not although_used and (uses := get_delegate_uses(delegate, actor)):
            raise Conflict(
                f"Connectors name its tags: {uses}. Confirm the deletion even though it is in use."
            )
        record_audit_entry(
            actor=actor, action="delegate.delete", thing=delegate, before=_build_audit_values(delegate)
        )
        publish_delegates_changed(delegate.pk)
        notify_ended(list(delegate.instances.values_list("pk", flat=True)), "session_invalid")
        delegate.delete()


def delete_block(*, actor: User, delegate: Delegate, entry: int) -> None:
    """Remove a block before it expires; an expired block is ignored."""
    require(actor, EDIT, delegate)
    with transaction.atomic():
        block = delegate.blocked.filter(pk=entry).first()
        if block is None:
            return
        record_audit_entry(
            actor=actor, action="delegate.unblock", thing=delegate, before={"criterion": block.criterion}
        )
        record_decision_event(delegate, Kind.ENABLED, f"{actor} removed the block for {block.criterion}.")
        block.delete()


def clean_tags(tags: Sequence[str]) -> list[str]:
    """Return the distinct tags without surrounding spaces. Raises `BadInput`."""
    distinct_tags = list(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
    if problems := [{"path": "tags", "message": message} for message in list_tag_problems(distinct_tags)]:
        raise BadInput("The tags are not valid.", errors=problems)
    return distinct_tags


def count_open_tasks(delegate: Delegate) -> int:
    """Return the number of a delegate's unfinished tasks."""
    started = Q(instance__delegate=delegate, status=DelegateTask.Status.STARTED)
    return DelegateTask.objects.filter(started).count()


def describe_open_tasks(delegate: Delegate) -> str:
    """Return why a delegate with unfinished tasks stays, with the way out; empty without such tasks."""
    running = count_open_tasks(delegate)
    verb = "is" if running == 1 else "are"
    sentence = f"{running} of its tasks {verb} still running. Drain the delegate, then wait for their end."
    return sentence if running else ""


def record_decision_event(
    delegate: Delegate, kind: str, text: str, instance: DelegateInstance | None = None
) -> None:
    """Write an event of a delegate."""
    DelegateEvent.objects.create(
        scope=delegate.scope,
        delegate=delegate,
        instance=instance,
        name=delegate.name,
        at=get_database_time(),
        kind=kind,
        text=text,
    )


def _set_admission(
    actor: User, delegate: Delegate, admission: str, kind: str, coming_from: tuple[str, ...]
) -> Delegate:
    require(actor, EDIT, delegate)
    label = DelegateEvent.Kind(kind).label
    with transaction.atomic():
        changed = Delegate.objects.filter(pk=delegate.pk, admission__in=coming_from)
        if not changed.update(admission=admission, draining=False):
            delegate.refresh_from_db(fields=["admission", "draining"])
            raise Conflict(f"The delegate {delegate} {_build_state(delegate)}: it cannot be {label.lower()}.")
        before = {"admission": delegate.admission, "draining": delegate.draining}
        after = {"admission": admission, "draining": False}
        record_audit_entry(actor=actor, action=_ACTIONS[kind], thing=delegate, before=before, after=after)
        record_decision_event(delegate, kind, f"{label} by {actor}.")
        publish_delegates_changed(delegate.pk)
        if admission == Admission.REJECTED:
            notify_ended(delegate.instances.values_list("pk", flat=True), "delegate_rejected")
    delegate.admission, delegate.draining = admission, False
    return delegate


def _set_draining(actor: User, delegate: Delegate, *, draining: bool) -> Delegate:
    require(actor, EDIT, delegate)
    with transaction.atomic():
        Delegate.objects.filter(pk=delegate.pk).update(draining=draining)
        action = "delegate.drain" if draining else "delegate.enable"
        record_audit_entry(
            actor=actor,
            action=action,
            thing=delegate,
            before={"draining": not draining},
            after={"draining": draining},
        )
        if draining:
            record_decision_event(delegate, Kind.DRAINING, f"Drained by {actor}.")
        else:
            record_decision_event(delegate, Kind.ENABLED, f"No longer drained, by {actor}.")
        publish_delegates_changed(delegate.pk)
        notify_drain(delegate.pk)
    delegate.draining = draining
    return delegate


_ACTIONS: dict[str, str] = {
    Kind.APPROVED: "delegate.approve",
    Kind.REJECTED: "delegate.reject",
    Kind.DISABLED: "delegate.disable",
    Kind.ENABLED: "delegate.enable",
}


def _build_state(delegate: Delegate) -> str:
    """Return the delegate's state as words to follow its name."""
    if delegate.admission == Admission.ENABLED:
        return "is drained" if delegate.draining else "is enabled"
    return {
        Admission.PENDING_APPROVAL.value: "waits for approval",
        Admission.REJECTED.value: "is rejected",
        Admission.DISABLED.value: "is disabled",
    }[delegate.admission]


def _validate_configuration(
    actor: User, delegate: Delegate, configuration: DelegateConfiguration
) -> DelegateConfiguration:
    if configuration.scope.path in delegate.scope.ancestor_paths():
        require_secret_access(actor, configuration, path="configuration")
        return configuration
    message = (
        f"The configuration {configuration} is in {configuration.scope}. Use one in {delegate.scope} or "
        "above."
    )
    raise BadInput(message, errors=[{"path": "configuration", "message": message}])


def _clean_text(description: str) -> str:
    """Return the text. Raises `BadInput` if it is too long or has forbidden characters."""
    fault = find_control_problem(description)
    message = fault.message if fault else ""
    if not fault and len(description) > DESCRIPTION_CHARACTERS:
        message = f"a description must have at most {DESCRIPTION_CHARACTERS}"
    if message:
        raise BadInput("The description is not valid.", errors=[{"path": "description", "message": message}])
    return description.strip()


def _build_audit_values(delegate: Delegate) -> dict[str, Any]:
    return {
        "name": delegate.name,
        "description": delegate.description,
        "tags": list(delegate.tags),
        "configuration": str(delegate.configuration) if delegate.configuration else None,
        "shares_scripts": delegate.shares_scripts,
    }


def wait_for_heartbeats(*, taken_at: datetime, now: datetime) -> int:
    """Give the instances that were connected at `taken_at` the usual time to report again after a restore.

    Until then they get no tasks. Those that stay away are reported as any other. Returns their number.
    """
    contacted = DelegateInstance.objects.filter(
        last_heartbeat_at__gt=taken_at - AWAY_AFTER, delegate__is_built_in=False
    )
    return contacted.exclude(status=DelegateInstance.Status.GONE).update(
        last_heartbeat_at=now, suspect_since=now
    )
