"""Pushes that a Git provider sends to the webhook of a sync: authenticated, then the sync is due."""

from typing import Final
from uuid import UUID

from django.conf import settings
from django.urls import reverse

from gitsync.models import GitSync, GitSyncHook
from gitsync.tasks import request_pass
from guards.limits import TRIGGER_REQUESTS_PER_MINUTE
from pipelines.triggers.base import HookRequest, RequestRefused, SetupStep, TriggerKind
from pipelines.triggers.events import parse_payload
from pipelines.triggers.receiving import NO_SECRET, SignatureRefused, count_refusal, require_acceptable
from pipelines.triggers.registry import list_kinds
from rbac.policy import NotVisible
from rbac.usage_counts import is_within_limit
from web.clock import get_database_time
from web.http.problems import TooManyRequests

_TRIGGER_KIND: Final = "git"


def receive_push(key: UUID, address: str, request: HookRequest) -> bool:
    """Have a sync look at its branch now, and return whether the request is a push to it.

    A sync applies a commit once, however often it is delivered. Raises `NotVisible`, `SignatureRefused`,
    `TooManyRequests`, `TooLarge` and `BadInput`.
    """
    require_acceptable(address, request)
    hook = GitSyncHook.objects.select_related("sync").filter(key=key).first()
    provider = {"provider": hook.provider if hook else GitSyncHook.Provider.GITHUB}
    try:
        # For an unknown address after the same work.
        _get_kind().authenticate(provider, hook.secret if hook else NO_SECRET, request)
    except RequestRefused:
        count_refusal(address)
        if hook is not None:
            raise SignatureRefused("The request was refused.") from None
    if hook is None:
        raise NotVisible("This webhook does not exist.")
    if not is_within_limit("git-sync", str(hook.pk), at_most=TRIGGER_REQUESTS_PER_MINUTE):
        raise TooManyRequests(f"A webhook takes {TRIGGER_REQUESTS_PER_MINUTE} in a minute.")
    events = _get_kind().read_events(provider, parse_payload(request.body), request.headers)
    is_push = any(event.values.get("branch") == hook.sync.branch for event in events)
    if is_push:
        now = get_database_time()
        GitSyncHook.objects.filter(pk=hook.pk).update(pushed_at=now)
        enabled = GitSync.objects.filter(pk=hook.sync_id, is_enabled=True)
        # A fetch by a delegate goes on, so that a branch with many pushes is synced too; another one follows.
        if enabled.update(due_at=now, cause=GitSync.Cause.PUSH):
            request_pass(hook.sync_id)
    return is_push


def build_hook_address(hook: GitSyncHook) -> str:
    """Return the public address of a webhook."""
    return f"{settings.PUBLIC_URL}{reverse('git-sync-hook', args=[hook.key])}"


def list_setup_steps(hook: GitSyncHook) -> list[SetupStep]:
    """Return how to set up the provider."""
    return _get_kind().list_setup_steps({"provider": hook.provider}, build_hook_address(hook))


def _get_kind() -> TriggerKind:
    return list_kinds()[_TRIGGER_KIND]
