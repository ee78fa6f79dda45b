"""Events of Git syncs for notification rules: a sync fails, fails in another way, or works again."""

from gitsync.models import GitSync, GitSyncRun
from notifications.event_texts import describe_git_sync
from notifications.events import EventType, GitSyncSubject, NotificationEvent
from notifications.outbox import notify
from web.page_paths import get_page_path


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
