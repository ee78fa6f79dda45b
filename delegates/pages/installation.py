"""Pages of the install wizard: questions, files and commands, download, waiting."""

from dataclasses import asdict, replace
from typing import Any, Final

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from delegates.access.start_checks import check_start
from delegates.forms.installation import ChangeTokenForm, DelegateSetupForm, NewDelegateForm
from delegates.install.generator import build_spec_zip
from delegates.install.plan import SpecPlan
from delegates.install.troubleshooting import list_likely_causes
from delegates.install.wizard import OWN_USE_NOTE, SIZES, SIZING_NOTE, WizardAnswers
from delegates.installations import list_installations
from delegates.models import Delegate
from delegates.operations.installation import (
    build_spec_request,
    change_setup,
    change_token,
    create_delegate,
    find_name_refusal,
    get_installation,
)
from delegates.queries.delegates import get_connect_progress
from rbac.models import Scope
from rbac.policy import can, require
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.forms.resource_pages import CreatePage, EditPage

VIEW: Final = "core_delegate_view"
EDIT: Final = "core_delegate_edit"
# Time until a page looks again for what another reader or a delegate reads for it.
READING_SECONDS: Final = 3
# The delegate whose token the next view of its files shows.
REVEALED_DELEGATE: Final = "revealed_delegate"
SIZE_CHOICES: Final = {"sizes": SIZES.values(), "own_use": OWN_USE_NOTE, "rule_of_thumb": SIZING_NOTE}


class NewDelegate(CreatePage[Delegate]):
    """The wizard of a new delegate."""

    template_name = "delegates/new/new.html"
    permission = EDIT
    form_class = NewDelegateForm
    noun = "delegate"
    parents = (("Delegates", "delegates"),)
    detail = "install-delegate"
    refusal_title = "Could not create the delegate"

    def get_context(self, form: NewDelegateForm) -> dict[str, Any]:
        """Return the sizes to choose from."""
        return dict(SIZE_CHOICES)

    def save(self, form: NewDelegateForm) -> Delegate:
        """Create the delegate."""
        data = form.cleaned_data
        delegate = create_delegate(
            actor=self.request.user,
            scope=data["in_scope"],
            name=data["name"],
            answers=form.build_answers,
            size=data["size"],
            tags=data["tags"],
            configuration=form.chosen_configuration,
            token=form.chosen_token,
        )
        self.request.session[REVEALED_DELEGATE] = delegate.pk
        return delegate


class EditSetup(EditPage[Delegate]):
    """Change the answers that decide a delegate's files, such as image, size or network."""

    template_name = "delegates/new/setup.html"
    permission = EDIT
    form_class = DelegateSetupForm
    noun = "delegate"
    parents = (("Delegates", "delegates"),)
    detail = "delegate"
    verb = "Change setup of"
    here = "Setup"
    hint = "What runs stays as it is until you deploy it, or use the new files."
    refusal_title = "Could not change the setup"
    done = "Setup of {name} changed. Deploy it now, or use the new files and commands."

    @staticmethod
    def load(request: PageRequest, pk: int) -> Delegate:
        """Return the delegate that the user may see."""
        return _get_delegate(request, pk)

    def get_initial(self) -> dict[str, Any]:
        """Return the stored answers; of a delegate without any, those of a new one."""
        delegate = self.object
        answers = asdict(WizardAnswers.from_json(delegate.spec)) if delegate.spec else {}
        words = {
            name: ", ".join(value)
            for name, value in answers.items()
            if isinstance(value, tuple) and name != "uses"
        }
        return answers | words | {"size": delegate.size}

    def get_form_options(self) -> dict[str, Any]:
        """Return the stored answers and the user."""
        return super().get_form_options() | {"person": self.request.user}

    def get_context(self, form: DelegateSetupForm) -> dict[str, Any]:
        """Return the sizes to choose from."""
        return dict(SIZE_CHOICES)

    def save(self, form: DelegateSetupForm) -> Delegate:
        """Change the setup."""
        return change_setup(
            actor=self.request.user,
            delegate=self.object,
            answers=form.build_answers,
            size=form.cleaned_data["size"],
        )

    def get_success_url(self, saved: Delegate) -> str:
        """Return the page with the new files and commands."""
        return reverse("install-delegate", args=[saved.pk])


@require_sign_in
@never_cache
@require_safe
def check_name(request: PageRequest) -> HttpResponse:
    """Show why a new delegate cannot have the name that is being typed."""
    name = request.GET.get("name", "").strip()
    scope = Scope.objects.filter(path=request.GET.get("in_scope", "")).first()
    problem = find_name_refusal(actor=request.user, scope=scope, name=name) if name else ""
    return render(request, "delegates/new/_name_check.html", {"problem": problem})


@require_sign_in
@never_cache
@require_safe
def show_installation(request: PageRequest, pk: int) -> HttpResponse:
    """Show every file and command of a delegate, and wait for it to connect.

    The token is shown once: after its creation, and after each request to show it again.
    """
    delegate = _get_delegate(request, pk)
    if delegate.is_built_in:
        messages.info(request, "The built-in delegate is part of Slipway and needs no installation.")
        return redirect("delegate", pk=pk)
    shows_token = request.method == "GET" and request.session.get(REVEALED_DELEGATE) == pk
    if shows_token:
        del request.session[REVEALED_DELEGATE]
    spec, missing = get_installation(actor=request.user, delegate=delegate, shows_token=shows_token)
    content = {
        **_build_progress(request, delegate),
        "token_form": ChangeTokenForm(person=request.user, scope=delegate.scope),
        "spec": spec,
        "lacking": missing,
        "can_show_token": delegate.token is not None and delegate.token.is_usable and not shows_token,
        "files": list(spec.files.items()),
        "finding": spec.list_commands("find"),
        "mirroring": spec.list_commands("mirror"),
        "creating": spec.list_commands("create"),
        "checking": spec.list_commands("verify"),
        "permitting": spec.list_commands("permissions"),
        "updating": spec.list_commands("update"),
        "size": SIZES.get(delegate.size),
        "own_use": OWN_USE_NOTE,
    }
    return render(request, "delegates/new/install.html", content)


@require_sign_in
@require_POST
def replace_spec_token(request: PageRequest, pk: int) -> HttpResponse:
    """Write the files of a delegate with another token."""
    delegate = _get_delegate(request, pk)
    require(request.user, EDIT, delegate)
    form = ChangeTokenForm(request.POST, person=request.user, scope=delegate.scope)
    if form.is_valid():
        token = change_token(actor=request.user, delegate=delegate, token=form.chosen)
        request.session[REVEALED_DELEGATE] = pk
        messages.success(request, f"The files now use the token {token.name}. Start the delegate with them.")
    else:
        messages.error(request, "This token can no longer be used. Choose another token.")
    return redirect("install-delegate", pk=pk)


@require_sign_in
@require_POST
def show_spec_token(request: PageRequest, pk: int) -> HttpResponse:
    """Show the files of a delegate with its token once more."""
    require(request.user, EDIT, _get_delegate(request, pk))
    request.session[REVEALED_DELEGATE] = pk
    return redirect("install-delegate", pk=pk)


@require_sign_in
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def download_spec(request: PageRequest, pk: int) -> HttpResponse:
    """Send the files and commands of a delegate as one zip; the token is in that of a POST alone."""
    delegate, shows_token = _get_delegate(request, pk), request.method == "POST"
    spec, _ = get_installation(actor=request.user, delegate=delegate, shows_token=shows_token)
    name = slugify(delegate.name) or "delegate"
    headers = {"Content-Disposition": f'attachment; filename="{name}.zip"'}
    return HttpResponse(build_spec_zip(spec), content_type="application/zip", headers=headers)


@require_sign_in
@never_cache
@require_safe
def show_connect_progress(request: PageRequest, pk: int) -> HttpResponse:
    """Show whether a delegate has connected, with the most likely causes of a missing connection."""
    return render(
        request, "delegates/new/_waiting.html", _build_progress(request, _get_delegate(request, pk))
    )


def _build_progress(request: PageRequest, delegate: Delegate) -> dict[str, Any]:
    progress = get_connect_progress(delegate, timezone.now())
    refusals, spec = [event.text for event in progress.refusals], build_spec_request(delegate)
    installations = list_installations(delegate) if progress.is_late else []
    # The log group of a stack is not that of the commands.
    spec = replace(spec, log_group=installations[0].plan.log_group) if installations else spec
    start = None
    if progress.needs_start_check and delegate.spec and spec.kind == "ECS":
        chosen = request.GET.get("connector", "")
        start = check_start(
            actor=request.user,
            delegate=delegate,
            plan=SpecPlan(spec),
            installed_by=[installation.connector.pk for installation in installations],
            chosen=chosen,
        )
    causes = list_likely_causes(
        spec,
        refusals=refusals,
        stop_reasons=[failure.reason for failure in start.failures] if start else (),
        is_running=bool(start and start.is_running),
    )
    return {
        "delegate": delegate,
        "waiting": progress,
        "start": start,
        "refresh_seconds": READING_SECONDS if start and start.is_reading else progress.seconds_left,
        "causes": causes if progress.is_late else [],
        "can_edit": can(request.user, EDIT, delegate),
        "manager_url": settings.PUBLIC_URL,
    }


def _get_delegate(request: PageRequest, pk: int) -> Delegate:
    rows = Delegate.objects.select_related("scope", "token__scope", "configuration").prefetch_related(
        "instances"
    )
    return get_visible(request, VIEW, rows, pk=pk)


@require_sign_in
@require_safe
def show_install_help(request: PageRequest) -> HttpResponse:
    """Show the help page for installing delegates."""
    return render(request, "delegates/help/help.html")
