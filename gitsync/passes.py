"""Passes of workers over Git syncs: each fetches the newest commit, and compares or applies it.

A plan is applied in one transaction, in which every change passes the checks of the REST API; the first
refusal undoes all of it. So a killed worker leaves the resources as they were, and the next pass repeats it.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import F, Q, QuerySet

from cli.errors import CliError
from cli.resources.application import apply_change
from cli.resources.plans import Change, ChangeType, Plan, build_plan
from cli.resources.stored import Key
from cli.resources.yaml_documents import Fault
from gitsync.commit_files import CommitFiles, CommitUnavailable, FetchPending, fetch_commit_files
from gitsync.documents import ParsedFiles, convert_error, parse_files
from gitsync.local_api import LocalApiClient
from gitsync.managed_resources import (
    build_elsewhere_faults,
    build_key,
    find_documents_elsewhere,
    has_unread_sync,
    list_claimed_keys,
    store_resources,
)
from gitsync.models import GitSync, GitSyncResource
from gitsync.runs import notify_recovery, record_failure, record_success
from guards.limits import GIT_SYNC_SECONDS
from rbac.audit import NO_REQUEST, current_request
from rbac.models import Scope, User
from rbac.policy import build_not_archived_filter
from web.live import publish_change_on_commit
from web.managed_resources import act_as_manager

POLL_INTERVAL: Final = timedelta(seconds=GIT_SYNC_SECONDS)
DELEGATE_INTERVAL: Final = timedelta(seconds=2)
# Each wait for another sync of the branch fetches again.
SIBLING_INTERVAL: Final = timedelta(seconds=15)
# Longer than Celery lets a pass take.
LEASE_LENGTH: Final = timedelta(seconds=60)
AUDIT_SOURCE: Final = "git"
LIVE_SOURCE: Final = "git-syncs"
State = GitSync.State
logger = logging.getLogger(__name__)


class LeaseLost(Exception):
    """Error raised when another worker has claimed the sync."""


class PlanRefused(Exception):
    """Error raised to undo a plan; `faults` are its refused changes."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("The plan was refused.")
        self.faults = faults


def list_due_syncs(now: datetime) -> list[int]:
    """Return the keys of the syncs that wait for a pass, oldest first."""
    return list(_filter_due(now).order_by("due_at", "pk").values_list("pk", flat=True))


def advance_sync(pk: int, now: datetime) -> bool:
    """Make one pass over a sync; False if another worker has it."""
    free = _filter_due(now).filter(pk=pk)
    if not free.update(fence=F("fence") + 1, lease_expires_at=now + LEASE_LENGTH):
        return False
    try:
        SyncPass(_load(pk), now).perform()
    except LeaseLost:
        logger.info("Another worker has taken over the Git sync %s", pk)
    return True


def record_crash(pk: int, error: Exception, now: datetime) -> None:
    """Store that a bug ended a pass."""
    reason = f"Slipway failed with an internal error ({type(error).__name__}). Report it."
    try:
        SyncPass(_load(pk), now).fail("", [Fault("", reason)])
    except LeaseLost:
        logger.info("Another worker has taken over the Git sync %s", pk)


def _load(pk: int) -> GitSync:
    return GitSync.objects.select_related(
        "scope", "connector__scope", "connector__secret__scope", "service_account__user", "lookup__task",
        "hook",
    ).get(pk=pk)  # fmt: skip


def _filter_due(now: datetime) -> "QuerySet[GitSync]":
    is_free = Q(lease_expires_at=None) | Q(lease_expires_at__lte=now)
    return GitSync.objects.filter(is_free, due_at__lte=now)


class SyncPass:
    """One pass over a claimed sync."""

    def __init__(self, sync: GitSync, now: datetime) -> None:
        self.sync, self.now = sync, now

    def perform(self) -> None:
        """Fetch the newest commit, and compare or apply it. Raises `LeaseLost`."""
        if not Scope.objects.filter(build_not_archived_filter(), pk=self.sync.scope_id).exists():
            self._store()
            return
        try:
            user = self._get_user()
            files = fetch_commit_files(self.sync, user)
        except CommitUnavailable as problem:
            self.fail("", [Fault("", str(problem))])
        except FetchPending as pending:
            self._store(lookup=pending.lookup, due_at=self.now + DELEGATE_INTERVAL, cause=self.sync.cause)
        else:
            self._compare_or_apply(user, files)

    def _get_user(self) -> User:
        """Return the user whose rights the sync has. Raises `CommitUnavailable`."""
        account = self.sync.service_account
        if account is None or not account.user.is_active:
            raise CommitUnavailable("The service account was deleted or is not active. Select another one.")
        return account.user

    def _compare_or_apply(self, user: User, files: CommitFiles) -> None:
        parsed = parse_files(files.texts, self.sync.scope)
        if parsed.faults:
            self.fail(files.commit, parsed.faults)
            return
        if elsewhere := find_documents_elsewhere(self.sync, parsed.documents):
            claims = [astuple(key) for key in elsewhere]
            self.fail(files.commit, build_elsewhere_faults(elsewhere), claims=claims)
            return
        client = LocalApiClient(user, str(self.sync.service_account))
        mark = current_request.set(replace(NO_REQUEST, source=AUDIT_SOURCE))
        try:
            plan = build_plan(client, parsed.documents, deletable=self._list_keys())
            if files.commit == self.sync.applied_commit and not self.sync.is_requested:
                self._record_comparison(files.commit, parsed, plan)
            elif self._prunes(plan) and has_unread_sync(self.sync, files.commit):
                self._postpone(files.commit)
            else:
                self._apply(client, files.commit, parsed, plan)
        except CliError as error:
            self.fail(files.commit, convert_error(error))
        except PlanRefused as refused:
            self.fail(files.commit, refused.faults)
        finally:
            current_request.reset(mark)

    def _list_keys(self) -> set[Key]:
        return {build_key(row) for row in GitSyncResource.objects.filter(sync=self.sync)}

    def _prunes(self, plan: Plan) -> bool:
        return self.sync.prunes and any(map(_is_deletion, plan.changes))

    def _postpone(self, commit: str) -> None:
        """Wait for another sync of the branch, so that it can claim the resources that it has now."""
        is_first = commit != self.sync.seen_commit
        seen = {"seen_commit": commit, "checked_at": self.now} if is_first else {}
        self._store(**seen, due_at=self.now + SIBLING_INTERVAL, cause=self.sync.cause)

    def _record_comparison(self, commit: str, parsed: ParsedFiles, plan: Plan) -> None:
        """Store how the resources differ from the commit that was applied."""
        with transaction.atomic():
            self._store(
                seen_commit=commit,
                state=_get_state(plan.changes),
                checked_at=self.now,
                lookup=None,
                claims=[],
            )
            store_resources(self.sync, parsed.documents, plan.changes)
            notify_recovery(self.sync, commit)

    def _apply(self, client: LocalApiClient, commit: str, parsed: ParsedFiles, plan: Plan) -> None:
        """Make all changes, or none. Raises `PlanRefused` and `LeaseLost`."""
        # Another sync that has the document now takes the resource over.
        claimed = list_claimed_keys(self.sync) if self._prunes(plan) else set()
        changes = [
            change
            for change in plan.changes
            if not _is_deletion(change) or (self.sync.prunes and change.key not in claimed)
        ]
        kept = [change for change in plan.changes if change not in changes]
        with transaction.atomic():
            self._store(
                seen_commit=commit,
                applied_commit=commit,
                state=_get_state(kept),
                checked_at=self.now,
                applied_at=self.now,
                lookup=None,
                is_requested=False,
                requested_by=None,
                claims=[],
            )
            with act_as_manager():
                faults = list(_make_changes(client, changes))
            if faults:
                raise PlanRefused(faults)
            store_resources(self.sync, parsed.documents, kept, applied=commit)
            record_success(self.sync, changes, commit, self.now)
            notify_recovery(self.sync, commit)

    def fail(self, commit: str, faults: Sequence[Fault], **values: Any) -> None:
        """Store why a commit was refused as a whole, or could not be fetched, with further columns.

        Raises `LeaseLost`.
        """
        with transaction.atomic():
            self._store(
                seen_commit=commit or self.sync.seen_commit,
                state=State.FAILED,
                checked_at=self.now,
                lookup=None,
                is_requested=False,
                requested_by=None,
                **values,
            )
            record_failure(self.sync, commit, faults, self.now)

    def _store(self, **values: Any) -> None:
        """Store the end of the pass. Raises `LeaseLost`.

        A sync that was pushed, requested or disabled meanwhile stays so, and fetches again.
        """
        claimed = GitSync.objects.filter(pk=self.sync.pk, fence=self.sync.fence)
        unchanged = claimed.filter(due_at=self.sync.due_at)
        # A pass that fetches nothing, such as in an archived scope, keeps the fetch.
        was_pushed = "lookup" in values and self._was_pushed_since_fetch()
        due = {
            "due_at": values.pop("due_at", self.now if was_pushed else self.now + POLL_INTERVAL),
            "cause": values.pop("cause", GitSync.Cause.PUSH if was_pushed else GitSync.Cause.POLL),
        }
        publish_change_on_commit(LIVE_SOURCE, self.sync.pk)
        if unchanged.update(**values, **due, lease_expires_at=None):
            return
        for name in ("is_requested", "requested_by"):
            values.pop(name, None)
        if claimed.filter(is_requested=False).update(**values, lease_expires_at=None):
            return
        # A fetch from before the request of a person may lack the commit that it is about.
        values["lookup"] = None
        if not claimed.update(**values, lease_expires_at=None):
            raise LeaseLost

    def _was_pushed_since_fetch(self) -> bool:
        """Return whether the branch was pushed after a delegate was asked for it, perhaps too late for it."""
        lookup, hook = self.sync.lookup, getattr(self.sync, "hook", None)
        pushed_at = hook.pushed_at if hook else None
        return lookup is not None and pushed_at is not None and pushed_at >= lookup.requested_at


def _make_changes(client: LocalApiClient, changes: Iterable[Change]) -> Iterator[Fault]:
    """Make changes one by one, and yield the faults of those that are refused."""
    for change in changes:
        file = change.document.location.file if change.document else ""
        try:
            with transaction.atomic():
                apply_change(client, change)
        except CliError as error:
            yield from convert_error(error, file)


def _is_deletion(change: Change) -> bool:
    return change.type is ChangeType.DELETE


def _get_state(changes: Sequence[Change]) -> State:
    return State.OUT_OF_SYNC if any(not _is_deletion(change) for change in changes) else State.SYNCED
