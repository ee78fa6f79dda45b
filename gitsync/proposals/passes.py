"""Passes of workers over proposals: each commits a changed file to a branch and pushes it.

The commit names its proposal in a trailer. A pass after a crash finds it there, and makes no second one.
"""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet

from aws.errors import AwsError
from catalog.manifests.yaml_drafts import NotEditable
from cli.errors import CliError
from cli.resources.kinds import INFRASTRUCTURE, Spec
from cli.resources.stored import Key, is_same_connector
from connectors.models import Connector
from delegates.access.aws_access import ConnectorPending, ConnectorUnavailable
from delegates.access.site_calls import (
    FETCH_FILES,
    FIND_COMMIT,
    PUSH_FILE,
    SITE_SERVICE,
    SiteCaller,
    open_site_access,
)
from gitsync.documents import get_scope_name
from gitsync.models import GitSync, GitSyncProposal
from gitsync.proposals.document_edits import build_difference, edit_document, read_spec
from guards.text import find_encoding_problem, sanitize_text
from web.live import publish_change_on_commit

LEASE_LENGTH: Final = timedelta(seconds=60)
RETRY_INTERVAL: Final = timedelta(seconds=2)
# Somebody else may push each time.
MOST_ATTEMPTS: Final = 5
TRAILER: Final = "Slipway-Change"
LIVE_SOURCE: Final = "git-syncs"
NO_DELEGATES: Final = (
    "The connector uses delegates, which cannot push. Select a connector that Slipway reaches itself."
)
LOOK_FIRST: Final = "Look at the branch before you save the change again."
UNANSWERED: Final = f"The Git server did not answer in time. {LOOK_FIRST}"
TIMED_OUT, PUSH_UNANSWERED = "TimedOut", "PushUnanswered"
_REASON_CHARACTERS: Final = 1000
_LOST_REF: Final = "couldn't find remote ref"
State = GitSyncProposal.State
logger = logging.getLogger(__name__)


class ProposalRefused(Exception):
    """Error raised if a proposal cannot be pushed; `difference` is that of a conflict."""

    def __init__(self, reason: str, difference: str = "") -> None:
        super().__init__(reason)
        self.difference = difference


class ProposalPostponed(Exception):
    """Error raised if a later attempt may push a proposal, or find that this one did."""


def list_due_proposals(now: datetime) -> list[str]:
    """Return the keys of the proposals that wait for a push, oldest first."""
    return [str(pk) for pk in _filter_due(now).order_by("due_at", "pk").values_list("pk", flat=True)]


def advance_proposal(pk: str, now: datetime) -> int | None:
    """Try to push a proposal; returns the key of the sync that follows its branch if that was pushed."""
    free = _filter_due(now).filter(pk=pk)
    if not free.update(attempts=F("attempts") + 1, lease_expires_at=now + LEASE_LENGTH):
        return None
    proposal = _load(pk)
    try:
        commit = _push(proposal)
    except ProposalRefused as refused:
        _end(proposal, now, State.FAILED, str(refused), difference=refused.difference)
        return None
    except ProposalPostponed as postponed:
        _postpone(proposal, now, str(postponed))
        return None
    if not commit:
        _postpone(proposal, now, "Other pushes came first each time. Save the change again.")
        return None
    return proposal.sync_id if _record_push(proposal, now, commit) else None


def record_crash(pk: str, error: Exception, now: datetime) -> None:
    """Try again after a bug ended a pass, and store it after the last attempt."""
    _postpone(_load(pk), now, f"Slipway failed with an internal error ({type(error).__name__}). Report it.")


def hold_waiting_proposals(reason: str, now: datetime) -> int:
    """Fail all proposals that wait for a push, and return their number; people may save them again."""
    waiting = GitSyncProposal.objects.filter(state=State.PENDING)
    return waiting.update(state=State.FAILED, reason=reason, due_at=None, lease_expires_at=None, ended_at=now)


def _filter_due(now: datetime) -> "QuerySet[GitSyncProposal]":
    is_free = Q(lease_expires_at=None) | Q(lease_expires_at__lte=now)
    return GitSyncProposal.objects.filter(is_free, state=State.PENDING, due_at__lte=now)


def _load(pk: str) -> GitSyncProposal:
    return GitSyncProposal.objects.select_related(
        "sync__scope", "sync__connector__scope", "sync__connector__secret__scope", "proposed_by"
    ).get(pk=pk)


def _push(proposal: GitSyncProposal) -> str:
    """Return the commit that the branch has, empty if the branch moved.

    Raises `ProposalRefused`, and `ProposalPostponed` if another attempt has to look for the commit.
    """
    caller = SiteCaller(_get_connector(proposal))
    try:
        if proposal.attempts > 1 and (commit := _find_earlier_push(caller, proposal)):
            return commit
        branch, head, text = _fetch_file(caller, proposal)
        change = _build_push(proposal, head, _edit(proposal, text, branch))
        params = {"repository": proposal.sync.repository, "push": change}
        answer = caller.call(SITE_SERVICE, PUSH_FILE, params)
    except ConnectorPending as pending:
        raise ProposalPostponed(str(pending)) from pending
    except (AwsError, ConnectorUnavailable) as problem:
        if isinstance(problem, AwsError) and problem.code in (TIMED_OUT, PUSH_UNANSWERED):
            # The server may have the commit.
            raise ProposalPostponed(_describe_unknown_end(problem)) from problem
        raise ProposalRefused(_describe(problem)) from problem
    return str(answer.get("commit") or "")


def _find_earlier_push(caller: SiteCaller, proposal: GitSyncProposal) -> str:
    """Return the commit of an attempt that was not stored, or had no answer; empty for none.

    Raises `ProposalPostponed` while that is unknown.
    """
    try:
        return _find_commit(caller, proposal)
    except (AwsError, ConnectorUnavailable) as problem:
        raise ProposalPostponed(_describe_unknown_end(problem)) from problem


def _describe_unknown_end(problem: AwsError | ConnectorUnavailable) -> str:
    if isinstance(problem, AwsError) and problem.code == TIMED_OUT:
        return UNANSWERED
    return f"{_describe(problem).rstrip('.')}. {LOOK_FIRST}"


def _describe(problem: AwsError | ConnectorUnavailable) -> str:
    return sanitize_text(problem.display_message if isinstance(problem, AwsError) else str(problem))


def _get_connector(proposal: GitSyncProposal) -> Connector:
    connector = proposal.sync.connector
    if connector is None:
        raise ProposalRefused("The connector was deleted. Select another one.")
    if not isinstance(open_site_access(connector), SiteCaller):
        raise ProposalRefused(NO_DELEGATES)
    return connector


def _find_commit(caller: SiteCaller, proposal: GitSyncProposal) -> str:
    params = {
        "repository": proposal.sync.repository,
        "ref": proposal.branch,
        "find": _build_trailer(proposal),
    }
    return str(caller.call(SITE_SERVICE, FIND_COMMIT, params)["commit"])


def _fetch_file(caller: SiteCaller, proposal: GitSyncProposal) -> tuple[str, str, str]:
    """Return name, head and file of the branch; of the followed branch if there is none."""
    sync, branch = proposal.sync, proposal.branch
    params = {"repository": sync.repository, "paths": [proposal.path]}
    try:
        answer = caller.call(SITE_SERVICE, FETCH_FILES, params | {"ref": f"refs/heads/{branch}"})
    except AwsError as problem:
        if _LOST_REF not in problem.display_message or branch == sync.branch:
            raise
        branch = sync.branch
        answer = caller.call(SITE_SERVICE, FETCH_FILES, params | {"ref": f"refs/heads/{branch}"})
    files: Mapping[str, Any] = answer["files"]
    return branch, str(answer["commit"]), str(files.get(proposal.path, ""))


def _edit(proposal: GitSyncProposal, text: str, branch: str) -> str:
    """Return the changed file of a branch; unchanged if the followed one has the new values already.

    Raises `ProposalRefused`.
    """
    key = Key(proposal.kind, proposal.place, proposal.resource, proposal.parent)
    scope = get_scope_name(proposal.sync.scope)
    if find_encoding_problem(text):
        raise ProposalRefused(f"{proposal.path} is not UTF-8. Change it in Git.")
    try:
        current = read_spec(text, key, scope)
        if current is None:
            raise ProposalRefused(f"{proposal.path} of {proposal.branch} no longer has the {proposal}.")
        current, after = _match_connector(proposal, current)
        followed = proposal.sync.branch
        if current == proposal.after and branch == followed:
            return text
        if current != proposal.before and branch != followed:
            # It may be merged, and the values changed since: a commit that is there already says nothing.
            raise ProposalRefused(
                f"{branch} has other values of the {proposal} than {followed}: merge it into {followed}, or "
                "delete it if that was done. Then save again.",
                build_difference(proposal.before, current),
            )
        if current != proposal.before:
            raise ProposalRefused(
                f"{proposal} was changed in {proposal.path} of the branch since it was shown. Save it again "
                "after the next sync.",
                build_difference(proposal.before, current),
            )
        return edit_document(text, key, scope, after)
    except (CliError, NotEditable) as error:
        raise ProposalRefused(f"{proposal.path} cannot be changed: {error}") from error


def _match_connector(proposal: GitSyncProposal, current: Spec) -> tuple[Spec, Spec]:
    """Return the file's spec to compare and the new one to write; an unchanged connector keeps its spelling.

    A file names the present connector of an infrastructure with or without its level.
    """
    before, after = proposal.before, proposal.after
    is_infrastructure = proposal.kind == INFRASTRUCTURE.name
    if not (is_infrastructure and is_same_connector(current["connector"], before["connector"])):
        return current, after
    if after["connector"] == before["connector"]:
        after = {**after, "connector": current["connector"]}
    return {**current, "connector": before["connector"]}, after


def _build_push(proposal: GitSyncProposal, head: str, content: str) -> dict[str, Any]:
    """Return the parameters of the push."""
    person = proposal.proposed_by
    name = (person.get_full_name() or person.username) if person else "Slipway"
    email = (person.email if person else "") or f"slipway@{urlsplit(settings.PUBLIC_URL).hostname}"
    return {
        "branch": proposal.branch,
        "base": proposal.sync.branch,
        "parent": head,
        "path": proposal.path,
        "content": content,
        "message": f"Update {proposal}\n\nProposed in Slipway by {name}.\n\n{_build_trailer(proposal)}\n",
        "author_name": name,
        "author_email": email,
        "made_at": int(proposal.created_at.timestamp()),
    }


def _build_trailer(proposal: GitSyncProposal) -> str:
    return f"{TRAILER}: {proposal.pk}"


def _record_push(proposal: GitSyncProposal, now: datetime, commit: str) -> bool:
    """Store the commit; True if the sync follows the branch, which is due then."""
    with transaction.atomic():
        _end(proposal, now, State.PUSHED, commit=commit)
        if proposal.branch != proposal.sync.branch:
            return False
        enabled = GitSync.objects.filter(pk=proposal.sync_id, is_enabled=True)
        return bool(enabled.update(due_at=now, cause=GitSync.Cause.PUSH))


def _postpone(proposal: GitSyncProposal, now: datetime, reason: str) -> None:
    """Have a proposal tried again, or end it after the last attempt."""
    if proposal.attempts >= MOST_ATTEMPTS:
        _end(proposal, now, State.FAILED, reason)
        return
    claimed = GitSyncProposal.objects.filter(pk=proposal.pk, attempts=proposal.attempts, state=State.PENDING)
    claimed.update(due_at=now + RETRY_INTERVAL, lease_expires_at=None)


def _end(proposal: GitSyncProposal, now: datetime, state: State, reason: str = "", **values: Any) -> None:
    """Store the end of a proposal, unless another worker has taken it over."""
    values = {name: value for name, value in values.items() if value}
    claimed = GitSyncProposal.objects.filter(pk=proposal.pk, attempts=proposal.attempts, state=State.PENDING)
    claimed.update(
        state=state, reason=reason[:_REASON_CHARACTERS], due_at=None, lease_expires_at=None, ended_at=now,
        **values,
    )  # fmt: skip
    publish_change_on_commit(LIVE_SOURCE, proposal.sync_id)
