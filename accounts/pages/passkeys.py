"""Pages of a user's own passkeys."""

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from accounts.authentication import passkeys
from accounts.authentication.passkeys import PasskeyRefused, Purpose
from accounts.authentication.sessions import describe_device
from accounts.authentication.sign_in_methods import explain_last_sign_in, is_last_sign_in
from accounts.authentication.two_factor import count_recovery_codes
from accounts.forms.account import NewPasskeyForm, PasskeyNameForm, ReauthenticationForm
from rbac.policy import NotVisible
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, require_get_or_post, require_sign_in
from web.http.problems import BadInput

NO_SCRIPT = "The browser sent no passkey. Adding one needs JavaScript."


@require_sign_in
@never_cache
@require_safe
def list_own_passkeys(request: PageRequest) -> HttpResponse:
    """List the user's passkeys."""
    content = {
        "passkeys": passkeys.list_passkeys(request.user),
        "obstacle": passkeys.get_passkey_obstacle(request),
        "codes_left": count_recovery_codes(request.user),
    }
    return render(request, "accounts/account/passkeys.html", content)


@require_sign_in
@never_cache
@sensitive_post_parameters()
@require_get_or_post
def new_passkey(request: PageRequest) -> HttpResponse:
    """Show the form of a new passkey, or add the one that the browser made."""
    if request.method != "POST":
        device = describe_device(request.META.get("HTTP_USER_AGENT", ""))
        form = NewPasskeyForm(person=request.user, request=request, initial={"name": device})
        return _render_new(request, form)
    try:
        codes = passkeys.add_passkey(
            request, actor=request.user, registration=request.POST.get("registration", "")
        )
    except PasskeyRefused as problem:
        values = {"name": request.POST.get("name", "")}
        form = NewPasskeyForm(person=request.user, request=request, initial=values)
        return _render_new(
            request, form, problem.detail if request.POST.get("registration") else NO_SCRIPT, 400
        )
    if codes:
        return render(request, "accounts/account/codes.html", {"codes": codes, "is_new": True})
    messages.success(request, "The passkey was added.")
    return redirect("passkeys")


@require_sign_in
@never_cache
@sensitive_post_parameters()
@require_POST
def new_passkey_options(request: PageRequest) -> HttpResponse:
    """Return what the browser needs to make a passkey, after a proof of identity."""
    form = NewPasskeyForm(request.POST, person=request.user, request=request)
    if not form.is_valid():
        raise BadInput(_describe_errors(form))
    values = form.cleaned_data
    options = passkeys.begin_registration(
        request, actor=request.user, name=values["name"], is_passwordless=values["is_passwordless"]
    )
    return JsonResponse(options)


@require_sign_in
@never_cache
@require_POST
def proof_options(request: PageRequest) -> HttpResponse:
    """Return what the browser needs to prove the user's identity with a passkey."""
    return JsonResponse(passkeys.begin_assertion(request, Purpose.PROOF, request.user))


@require_sign_in
@never_cache
@require_get_or_post
def rename_passkey(request: PageRequest, pk: int) -> HttpResponse:
    """Give a passkey another name."""
    passkey = _get_passkey(request, pk)
    form = PasskeyNameForm(get_posted_data(request), initial={"name": passkey.name})
    if request.method == "POST" and form.is_valid():
        passkeys.rename_passkey(actor=request.user, pk=pk, name=form.cleaned_data["name"])
        messages.success(request, "The passkey was renamed.")
        return redirect("passkeys")
    content = {"form": form, "passkey": passkey}
    return render(request, "accounts/account/rename_passkey.html", content, status=form.http_status)


@require_sign_in
@never_cache
@sensitive_post_parameters()
@require_get_or_post
def remove_passkey(request: PageRequest, pk: int) -> HttpResponse:
    """Remove a passkey, after a proof of identity."""
    passkey = _get_passkey(request, pk)
    form = ReauthenticationForm(get_posted_data(request), person=request.user, request=request)
    is_last = is_last_sign_in(request.user, pk)
    if request.method == "POST" and not is_last and form.is_valid():
        passkeys.remove_passkey(actor=request.user, pk=pk)
        messages.success(request, f"{passkey.name} was removed. It no longer signs you in.")
        return redirect("passkeys")
    content = {
        "form": form,
        "passkey": passkey,
        "is_last_factor": passkeys.is_last_factor(request.user, pk),
        "obstacle": explain_last_sign_in() if is_last else "",
    }
    return render(request, "accounts/account/remove_passkey.html", content, status=form.http_status)


def _get_passkey(request: PageRequest, pk: int) -> passkeys.Passkey:
    passkey = next((row for row in passkeys.list_passkeys(request.user) if row.pk == pk), None)
    if passkey is None:
        raise NotVisible("You have no such passkey.")
    return passkey


def _describe_errors(form: NewPasskeyForm) -> str:
    """Return the errors in one text, each with the label of its field."""
    texts = []
    for name, errors in form.errors.items():
        label = f"{form[name].label}: " if name in form.fields else ""
        texts += [f"{label}{error}" for error in errors]
    return " ".join(texts)


def _render_new(
    request: PageRequest, form: NewPasskeyForm, refusal: str = "", status: int = 200
) -> HttpResponse:
    content = {"form": form, "refusal": refusal, "obstacle": passkeys.get_passkey_obstacle(request)}
    return render(request, "accounts/account/new_passkey.html", content, status=status)
