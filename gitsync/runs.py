"""Runs of a sync: applied commits, refused ones, and the notifications about both."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from cli.resources.plans import Change, ChangeType
from cli.resources.yaml_documents import Fault
from gitsync.models import GitSync, GitSyncRun
from guards.limits import GIT_SYNC_FAULTS, GIT_SYNC_RUNS
from guards.text import sanitize_text
from notifications.event_texts import describe_git_sync
from notifications.events import EventType, GitSyncSubject, NotificationEvent
from notifications.outbox import notify
from rbac.audit import record_audit_entry
from web.page_paths import get_page_path

FAULT_CHARACTERS = 1000


def record_success(sync: GitSync, changes: Sequence[Change], commit: str, now: datetime) -> GitSyncRun:
    """Record that a commit was applied with these changes; call it in their transaction."""
    counts = {kind: sum(change.type is kind for change in changes) for kind in ChangeType}
    run = GitSyncRun.objects.create(
        sync=sync,
        commit=commit,
        requested_by_id=sync.requested_by_id,
        cause=sync.cause,
        result=GitSyncRun.Result.APPLIED,
        created=counts[ChangeType.CREATE],
        changed=counts[ChangeType.UPDATE],
        deleted=counts[ChangeType.DELETE],
        started_at=now,
        ended_at=now,
    )
    after = {"commit": commit, "created": run.created, "changed": run.changed, "deleted": run.deleted}
    actor = sync.service_account.user if sync.service_account else None
    record_audit_entry(actor=actor, action="gitsync.apply", thing=sync, after=after)
    _prune(sync)
    return run


def record_failure(sync: GitSync, commit: str, faults: Iterable[Fault], now: datetime) -> GitSyncRun:
    """Record why a commit was refused, and notify; the same faults again extend the last run.

    `sync` has its state from before the pass.
    """
    documents = [_build_document(fault) for fault in list(faults)[:GIT_SYNC_FAULTS]]
    last = get_last_run(sync)
    if last and (last.result, last.commit, last.faults) == (GitSyncRun.Result.FAILED, commit, documents):
        GitSyncRun.objects.filter(pk=last.pk).update(ended_at=now)
        if sync.state != GitSync.State.FAILED:
            notify_failure(sync, last)
        return last
    run = GitSyncRun.objects.create(
        sync=sync,
        commit=commit,
        requested_by_id=sync.requested_by_id,
        cause=sync.cause,
        result=GitSyncRun.Result.FAILED,
        faults=documents,
        started_at=now,
        ended_at=now,
    )
    _prune(sync)
    notify_failure(sync, run)
    return run


def get_last_run(sync: GitSync) -> GitSyncRun | None:
    """Return the newest run."""
    return GitSyncRun.objects.filter(sync=sync).order_by("-pk").first()


def _build_document(fault: Fault) -> dict[str, Any]:
    values = asdict(fault)
    del values["document"]
    return values | {"message": sanitize_text(fault.message)[:FAULT_CHARACTERS]}


def _prune(sync: GitSync) -> None:
    keys = GitSyncRun.objects.filter(sync=sync).order_by("-pk").values_list("pk", flat=True)
    if (oldest := keys[GIT_SYNC_RUNS - 1 : GIT_SYNC_RUNS]) and (pk := oldest.first()):
        GitSyncRun.objects.filter(sync=sync, pk__lt=pk).delete()


def notify_failure(sync: GitSync, run: GitSyncRun) -> None:
    """Notify that a commit was refused, or that the branch could not be read, in their transaction."""
    cause = _describe_faults(run)
    notify(
        NotificationEvent(
            event=EventType.GIT_SYNC_FAILED,
            scope=sync.scope,
            text=describe_git_sync(sync.name, cause),
            path=get_page_path("git-sync", sync.pk),
            status=GitSync.State.FAILED,
            cause=cause,
            git_sync=GitSyncSubject(sync.name, run.commit, tuple(run.faults)),
        )
    )


def notify_recovery(sync: GitSync, commit: str) -> None:
    """Notify that a sync works again, in the transaction of its pass; `sync` has its state from before."""
    if sync.state != GitSync.State.FAILED:
        return
    notify(
        NotificationEvent(
            event=EventType.GIT_SYNC_RECOVERED,
            scope=sync.scope,
            text=describe_git_sync(sync.name),
            path=get_page_path("git-sync", sync.pk),
            status=GitSync.State.SYNCED,
            git_sync=GitSyncSubject(sync.name, commit),
        )
    )


def _describe_faults(run: GitSyncRun) -> str:
    """Return the first fault with its place, and the number of the others."""
    fault, more = run.faults[0], len(run.faults) - 1
    place = f"{fault['file']}, line {fault['line']}: " if fault["line"] else ""
    others = f" ({more} more fault{'s' if more > 1 else ''})" if more else ""
    return f"{place}{fault['message']}{others}"
