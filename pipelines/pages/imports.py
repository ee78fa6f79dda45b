"""Page that imports a project of another tool, after a preview."""

from functools import partial

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from pipelines.forms.imports import ImportForm
from pipelines.imports.operations import create_import, preview_import
from pipelines.imports.proposals import TOOLS, ImportProposal
from web.forms.pages import PageRequest, require_get_or_post, require_sign_in
from web.forms.resource_pages import Breadcrumb
from web.http.problems import Problem

# The button that creates what was previewed sends the digest of the preview.
DIGEST_FIELD = "digest"


@require_sign_in
@require_get_or_post
def import_project(request: PageRequest) -> HttpResponse:
    """Show the form, the preview of what it would create, and create it."""
    build_form = partial(ImportForm, person=request.user, scope=request.current_scope)
    if request.method != "POST":
        return _render(request, build_form(initial={"tool": request.GET.get("from", "")}))
    form = build_form(request.POST, request.FILES)
    if not form.is_valid():
        return _render(request, form, status=400)
    spec, scope = form.build_spec(), form.cleaned_data["in_scope"]
    repeated = build_form(form.build_repeatable_data(request.POST))
    try:
        if digest := request.POST.get(DIGEST_FIELD, ""):
            created = create_import(actor=request.user, scope=scope, spec=spec, digest=digest)
            done = f"Imported {created.service.name} from {TOOLS[spec.tool]}. Nothing was deployed."
            messages.success(request, " ".join((done, *created.takeovers)))
            return redirect("pipeline", pk=created.pipeline.pk)
        proposal = preview_import(actor=request.user, scope=scope, spec=spec)
    except Problem as problem:
        repeated.add_problem(problem)
        return _render(request, repeated, status=problem.status)
    return _render(request, repeated, proposal)


def _render(
    request: PageRequest, form: ImportForm, proposal: ImportProposal | None = None, status: int = 200
) -> HttpResponse:
    back = reverse("services")
    context = {
        "form": form,
        "proposal": proposal,
        "title": "Import",
        "heading": "Import from ecspresso or PipeCD",
        "here": "Import",
        "breadcrumbs": [Breadcrumb("Services", back)],
        "back": back,
        "refusal_title": "Could not import",
    }
    return render(request, "pipelines/import.html", context, status=status)
