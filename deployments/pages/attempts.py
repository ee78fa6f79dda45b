"""Page that retries an ended execution: its failed step, one of its stages, or all of it."""

import uuid
from typing import Any, Final

from django import forms
from django.http import HttpResponse
from django.shortcuts import redirect, render

from deployments.execution import operations
from deployments.execution.documents import build_rights, get_buttons
from deployments.execution.planning import attempts
from deployments.freezes import operations as freezes_operations
from deployments.models import Execution
from rbac.policy import get_permissions, require
from web.forms.pages import PageRequest, get_visible, require_get_or_post, require_sign_in
from web.http.problems import Problem

VIEW: Final = "core_pipeline_view"
EXECUTE: Final = "core_pipeline_execute"
STEP, WHOLE, STAGE = "step", "whole", "stage."


class RetryForm(forms.Form):
    """Choice of where a retry begins."""

    start = forms.CharField(max_length=200)
    override_freeze = forms.BooleanField(required=False)


@require_sign_in
@require_get_or_post
def retry_execution(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Show where a retry may begin, and start it."""
    rows = Execution.objects.select_related("pipeline__scope", "scope", "started_by", "next_attempt")
    execution = get_visible(request, VIEW, rows, pk=pk)
    require(request.user, EXECUTE, execution)
    problem, status = "", 200
    if request.method == "POST":
        form = RetryForm(request.POST)
        if form.is_valid():
            try:
                return redirect("execution", pk=_retry(request, execution, **form.cleaned_data).pk)
            except Problem as refusal:
                problem, status = refusal.detail, refusal.status
        else:
            problem, status = "Choose where the retry begins.", 400
    context = {**_build_context(request, execution), "problem": problem}
    return render(request, "deployments/retry.html", context, status=status)


def _retry(request: PageRequest, execution: Execution, start: str, override_freeze: bool) -> Execution:
    """Start the retry and return the execution to watch."""
    options: dict[str, Any] = {
        "actor": request.user,
        "execution": execution,
        "override_freeze": override_freeze,
    }
    if start == STEP:
        operations.retry_execution(**options)
        return execution
    if start == WHOLE:
        return operations.start_attempt(**options, whole=True)
    return operations.start_attempt(**options, stage=start.removeprefix(STAGE))


def _build_context(request: PageRequest, execution: Execution) -> dict[str, Any]:
    choices = attempts.list_stage_choices(execution)
    failed = attempts.find_failed_stage(choices)
    can = get_buttons(execution, build_rights(get_permissions(request.user, execution)))
    chosen = f"{STAGE}{failed.identifier}" if failed else WHOLE
    return {
        "execution": execution,
        "can": can,
        "choices": [
            {"value": f"{STAGE}{choice.stage.identifier}", "stage": choice.stage, "obstacle": choice.obstacle}
            for choice in choices
        ],
        "chosen": request.POST.get("start") or chosen,
        "failed_step": (execution.failure or {}).get("step"),
        "frozen": freezes_operations.get_retry_freeze(request.user, execution),
    }
