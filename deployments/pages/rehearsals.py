"""Page that rehearses the rollback of an execution."""

import uuid
from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render

from deployments.execution.undo_plan import build_rollback_plan
from deployments.models import Execution
from deployments.pages.runs import REHEARSAL_BEHAVIORS
from deployments.rehearsal.operations import rehearse_rollback
from deployments.rehearsal.sandbox_access import is_sandbox_installed
from rbac.policy import require
from web.forms.pages import PageRequest, get_visible, require_get_or_post, require_sign_in
from web.http.problems import Problem

VIEW: Final = "core_pipeline_view"
EXECUTE: Final = "core_pipeline_execute"


@require_sign_in
@require_get_or_post
def show_rollback_rehearsal(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Show what a rollback would undo; rehearse it in a sandbox on POST."""
    executions = Execution.objects.select_related("pipeline__scope", "scope")
    execution = get_visible(request, VIEW, executions, pk=pk)
    require(request.user, EXECUTE, execution)
    content: dict[str, Any] = {
        "execution": execution,
        "plan": build_rollback_plan(execution),
        "behaviors": REHEARSAL_BEHAVIORS if is_sandbox_installed() else (),
        "behavior": request.POST.get("behavior", ""),
    }
    if request.method == "POST":
        try:
            content["rehearsal"] = rehearse_rollback(
                actor=request.user, execution=execution, behavior=content["behavior"]
            )
        except Problem as problem:
            content["problem"] = problem.detail
    return render(request, "deployments/rollback_rehearsal.html", content)
