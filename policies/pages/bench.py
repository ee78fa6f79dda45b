"""Page that evaluates a condition without any effect."""

from collections.abc import Sequence

from django.http import HttpResponse
from django.shortcuts import render

from policies.bench import (
    EvaluationResult,
    evaluate_on_documents,
    list_choices,
    load_documents,
    parse_document,
    require_bench_access,
)
from policies.document_sources import NamedDocument
from policies.forms.bench import SEPARATOR, BenchForm
from policies.models import PolicyRule
from policies.operations import VIEW
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, require_get_or_post, require_sign_in
from web.http.problems import Problem


@require_sign_in
@require_get_or_post
def evaluate_on_bench(request: PageRequest) -> HttpResponse:
    """Evaluate a condition on a stored resource or a pasted document.

    `?rule=` starts with the condition of a rule, and offers the resources of its subject.
    """
    require_bench_access(request.user)
    scope, rule = request.current_scope, _get_rule(request)
    subjects = [rule.subject] if rule is not None else PolicyRule.Subject.values
    choices: dict[str, Sequence[tuple[str, str]]] = {
        subject: list_choices(request.user, subject, scope) if scope else () for subject in subjects
    }
    initial = {"condition": rule.condition} if rule is not None else {}
    form = BenchForm(get_posted_data(request), choices=choices, initial=initial)
    results: list[EvaluationResult] | None = None
    if request.method == "POST" and form.is_valid():
        try:
            results = evaluate_on_documents(form.cleaned_data["condition"], _load(request, form))
        except Problem as problem:
            form.add_problem(problem)
    content = {"form": form, "results": results}
    return render(request, "policies/test.html", content, status=form.http_status)


def _load(request: PageRequest, form: BenchForm) -> list[NamedDocument]:
    subject, _, key = form.cleaned_data["resource"].partition(SEPARATOR)
    if not subject:
        return [parse_document(form.cleaned_data["document"])]
    return list(load_documents(request.user, subject, key))


def _get_rule(request: PageRequest) -> PolicyRule | None:
    """Return the visible rule of `?rule=`; None without one. Raises `NotVisible` (404)."""
    key = request.GET.get("rule", "")
    return get_visible(request, VIEW, PolicyRule.objects.all(), pk=key) if key else None
