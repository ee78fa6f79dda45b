"""Pages that create a delegate: its questions, the files and commands that follow, the waiting for it."""

from typing import Any, Final

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.text import slugify
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from delegates.forms.new_delegate import ChangeTokenForm, NewDelegateForm
from delegates.models import Delegate
from delegates.operations.new_delegates import change_token, create_delegate, installation, request_for
from delegates.queries.waiting import waiting_for
from delegates.sizes import OWN_USE, RULE_OF_THUMB, SIZES
from delegates.specs.archive import zipped
from delegates.specs.troubleshooting import likely_causes
from rbac.policy import can, require
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.problems import Problem

VIEW: Final = "core_delegate_view"
EDIT: Final = "core_delegate_edit"
GET_OR_POST: Final = ["GET", "HEAD", "POST"]
SIZES_SHOWN: Final = {"sizes": SIZES.values(), "own_use": OWN_USE, "rule_of_thumb": RULE_OF_THUMB}


@page
@require_http_methods(GET_OR_POST)
def new_delegate(request: PageRequest) -> HttpResponse:
    """This will ask what a delegate shall be like, and make it."""
    form = NewDelegateForm(posted(request), person=request.user, scope=request.current_scope)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            made = create_delegate(
                actor=request.user,
                scope=given["in_scope"],
                name=given["name"],
                wish=form.wish,
                size=given["size"],
                tags=given["tags"],
                configuration=form.chosen_configuration,
                token=form.chosen_token,
            )
        except Problem as problem:
            form.refuse(problem)
        else:
            return redirect("install-delegate", pk=made.pk)
    return render(request, "delegates/new/new.html", {"form": form, **SIZES_SHOWN}, status=form.http_status)


@page
@never_cache
@require_safe
def install(request: PageRequest, pk: int) -> HttpResponse:
    """This will show every file and command of a delegate, and wait for it to connect."""
    found = _found(request, pk)
    if found.is_built_in:
        messages.info(request, "The built-in delegate is part of this Slipway: there is nothing to install.")
        return redirect("delegate", pk=pk)
    spec, lacking = installation(actor=request.user, delegate=found)
    content = {
        **_waiting(request, found),
        "token_form": ChangeTokenForm(person=request.user, scope=found.scope),
        "spec": spec,
        "lacking": lacking,
        "files": list(spec.files.items()),
        "finding": spec.of("find"),
        "creating": spec.of("create"),
        "checking": spec.of("verify"),
        "permitting": spec.of("permissions"),
        "updating": spec.of("update"),
        "size": SIZES.get(found.size),
        "own_use": OWN_USE,
    }
    return render(request, "delegates/new/install.html", content)


@page
@require_POST
def change_token_of(request: PageRequest, pk: int) -> HttpResponse:
    """This will write the files of a delegate with another token."""
    found = _found(request, pk)
    require(request.user, EDIT, found)
    form = ChangeTokenForm(request.POST, person=request.user, scope=found.scope)
    if form.is_valid():
        chosen = change_token(actor=request.user, delegate=found, token=form.chosen)
        messages.success(request, f"The files have the token {chosen.name} now. Start the delegate with it.")
    else:
        messages.error(request, "This token cannot be used any more. Choose another one.")
    return redirect("install-delegate", pk=pk)


@page
@never_cache
@require_safe
def download(request: PageRequest, pk: int) -> HttpResponse:
    """This will send the files and commands of a delegate as one zip."""
    found = _found(request, pk)
    spec, _ = installation(actor=request.user, delegate=found)
    name = slugify(found.name) or "delegate"
    headers = {"Content-Disposition": f'attachment; filename="{name}.zip"'}
    return HttpResponse(zipped(spec), content_type="application/zip", headers=headers)


@page
@never_cache
@require_safe
def waiting(request: PageRequest, pk: int) -> HttpResponse:
    """This will say whether a delegate has connected, or what most likely keeps it away."""
    return render(request, "delegates/new/_waiting.html", _waiting(request, _found(request, pk)))


def _waiting(request: PageRequest, found: Delegate) -> dict[str, Any]:
    seen = waiting_for(found, timezone.now())
    said = [event.text for event in seen.refusals]
    return {
        "delegate": found,
        "waiting": seen,
        "causes": likely_causes(request_for(found), refusals=said) if seen.is_late else [],
        "can_edit": can(request.user, EDIT, found),
        "manager_url": settings.PUBLIC_URL,
    }


def _found(request: PageRequest, pk: int) -> Delegate:
    rows = Delegate.objects.select_related("scope", "token__scope", "configuration").prefetch_related(
        "instances"
    )
    return get_visible(request, VIEW, rows, pk=pk)
