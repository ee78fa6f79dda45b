"""Pages of Git syncs."""

import uuid
from typing import Any

from django.contrib import messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from gitsync import operations
from gitsync.forms import SPEC_FIELDS, GitSyncForm, HookForm, NewGitSyncForm
from gitsync.managed_resources import build_key
from gitsync.models import GitSync, GitSyncHook, GitSyncProposal, GitSyncResource, GitSyncRun
from gitsync.operations import DELETE, EDIT, VIEW, list_git_syncs
from gitsync.proposals.links import build_link
from gitsync.pushes import build_hook_address, list_setup_steps, receive_push
from gitsync.queries import build_repository_url, hide_difference, list_resource_urls, list_viewable_kinds
from gitsync.runs import get_last_run
from pipelines.triggers.base import HookRequest
from rbac.policy import can_anywhere, get_permissions
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import CreatePage, DeletePage, FormPage, ResourcePage, VersionedEditPage
from web.http.pagination import paginate_queryset
from web.http.problems import Conflict
from web.text_diffs import TextDiff, diff_values

SHOWN_RUNS = 20


def get_git_sync(request: PageRequest, pk: int) -> GitSync:
    """Return a visible sync. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW, list_git_syncs(), pk=pk)


class GitSyncPage(ResourcePage[GitSync]):
    """A page about a Git sync."""

    load = staticmethod(get_git_sync)
    noun = "Git sync"
    parents = (("Git syncs", "git-syncs"),)
    detail = "git-sync"


@require_sign_in
@require_safe
def show_list(request: PageRequest) -> HttpResponse:
    """List the Git syncs."""
    syncs = list_visible(request, VIEW, list_git_syncs())
    content = {
        "page": paginate_queryset(syncs, request),
        "can_add": can_anywhere(request.user, EDIT),
        "may_view": can_anywhere(request.user, VIEW),
    }
    return render(request, "gitsync/list.html", content)


@require_sign_in
@require_safe
def show_git_sync(request: PageRequest, pk: int) -> HttpResponse:
    """Show a sync with its faults, resources, differences and runs."""
    sync = get_git_sync(request, pk)
    page = paginate_queryset(GitSyncResource.objects.filter(sync=sync), request)
    kinds, last = list_viewable_kinds(sync, request.user), get_last_run(sync)
    urls = list_resource_urls(page.items, kinds)
    runs = GitSyncRun.objects.filter(sync=sync).select_related("requested_by").order_by("-pk")
    content = {
        "sync": sync,
        "url": build_repository_url(sync),
        "page": page,
        "rows": [(hide_difference(row, kinds), urls.get(build_key(row), "")) for row in page.items],
        "failed_run": last if sync.state == GitSync.State.FAILED else None,
        "runs": runs[:SHOWN_RUNS],
        "proposals": [
            (hide_difference(row, kinds), build_link(row)) for row in _list_proposals(sync)[:SHOWN_RUNS]
        ],
        "hook": GitSyncHook.objects.filter(sync=sync).defer("secret").first(),
        "rights": get_permissions(request.user, sync),
    }
    return render(request, "gitsync/git_sync.html", content)


@require_sign_in
@require_POST
def sync_now(request: PageRequest, pk: int) -> HttpResponse:
    """Have the newest commit applied now."""
    sync = get_git_sync(request, pk)
    try:
        operations.request_sync(actor=request.user, sync=sync)
    except Conflict as problem:
        messages.warning(request, problem.detail)
    else:
        messages.success(request, "Sync requested. Its result appears here in a few seconds.")
    return redirect("git-sync", pk=pk)


class GitSyncFormPage(GitSyncPage, FormPage[GitSync]):
    """Form of a Git sync, with the connectors and service accounts that the user may use."""

    def get_form_options(self) -> dict[str, Any]:
        return {**super().get_form_options(), "user": self.request.user}


class NewGitSync(GitSyncFormPage, CreatePage[GitSync]):
    """Create a Git sync."""

    permission = EDIT
    form_class = NewGitSyncForm
    here = "New"
    done = "Git sync {name} created. The first sync begins now."

    def save(self, form: NewGitSyncForm) -> GitSync:
        data = form.cleaned_data
        return operations.create_git_sync(
            actor=self.request.user,
            scope=data["in_scope"],
            identifier=data["identifier"],
            spec=form.build_spec(),
        )


class EditGitSync(GitSyncFormPage, VersionedEditPage[GitSync]):
    """Edit a Git sync."""

    permission = EDIT
    form_class = GitSyncForm
    fields = SPEC_FIELDS

    def describe_change(self, form: GitSyncForm) -> TextDiff:
        """Return the difference of the values; rows are shown by their names."""
        return diff_values(_name_rows(self.get_stored()), _name_rows(self.get_entered(form)))

    def save(self, form: GitSyncForm) -> GitSync:
        return operations.update_git_sync(
            actor=self.request.user,
            sync=self.object,
            spec=form.build_spec(),
            version=self.get_opened_version(form),
        )


@method_decorator(never_cache, name="dispatch")
class SetUpHook(GitSyncPage, FormPage[GitSync]):
    """Create the webhook of a sync, or replace its secret, which is shown once."""

    permission = EDIT
    form_class = HookForm
    verb = "Set up webhook of"
    here = "Webhook"
    button = "Create secret"
    hint = "A secret that the provider has now is refused from then on."

    def save(self, form: HookForm) -> tuple[GitSyncHook, str]:
        return operations.set_up_hook(
            actor=self.request.user, sync=self.object, provider=form.cleaned_data["provider"]
        )

    def finish(self, saved: tuple[GitSyncHook, str]) -> HttpResponse:
        """Show the secret, and how to set up the provider."""
        hook, secret = saved
        content = {"sync": self.object, "secret": secret, "address": build_hook_address(hook)}
        steps = {"setup_steps": list_setup_steps(hook), "here": self.here}
        return self.render(content | steps, 200, "gitsync/hook.html")


@csrf_exempt
@require_POST
def receive_hook(request: HttpRequest, key: uuid.UUID) -> JsonResponse:
    """Take a push of a Git provider, and answer 202 before anything is fetched."""
    address = str(request.META.get("REMOTE_ADDR", ""))
    received = HookRequest(request.headers, request.body, timezone.now(), request.GET.get("token", ""))
    return JsonResponse({"is_push": receive_push(key, address, received)}, status=202)


class DeleteGitSync(GitSyncPage, DeletePage[GitSync]):
    """Delete a Git sync."""

    permission = DELETE
    text = "Its resources stay, and can be edited in Slipway again."

    def perform(self, **values: Any) -> None:
        operations.delete_git_sync(actor=self.request.user, sync=self.object)


def _list_proposals(sync: GitSync) -> "QuerySet[GitSyncProposal]":
    rows = GitSyncProposal.objects.filter(sync=sync).defer("before", "after")
    return rows.select_related("sync__connector", "proposed_by").order_by("-created_at")


def _name_rows(values: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, Model) else value for name, value in values.items()}
