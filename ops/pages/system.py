"""Pages about the state of this installation."""

from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from guards.examinations import Result
from ops.doctor import examine_installation
from ops.processes import list_processes
from ops.retention_report import build_retention_report
from rbac.models import Scope
from rbac.policy import require
from web.clock import get_database_time
from web.forms.pages import PageRequest, require_sign_in

MANAGE_ACCOUNT: Final = "core_account_edit"
# Those that take milliseconds; the others call mail servers and AWS, or read every secret.
PAGE_CHECKS: Final = ("database", "migrations", "restores", "broker", "processes", "clocks", "versions")
_STATUSES: Final = {
    Result.OK: ("OK", "OK"),
    Result.WARNING: ("WARNING", "Warning"),
    Result.FAILED: ("FAILED", "Failed"),
    Result.SKIPPED: ("SKIPPED", "Not checked"),
}


@require_sign_in
@require_safe
def system(request: PageRequest) -> HttpResponse:
    """Show the checks of the installation with their fixes, and its processes."""
    require(request.user, MANAGE_ACCOUNT, Scope.objects.account())
    findings = [
        (name.capitalize(), *_STATUSES[finding.result], finding)
        for name, finding in examine_installation(PAGE_CHECKS)
    ]
    content = {
        "findings": findings,
        "failed": sum(finding.result is Result.FAILED for *_, finding in findings),
        "states": list_processes(get_database_time()),
    }
    return render(request, "ops/system.html", content)


@require_sign_in
@require_safe
def retention(request: PageRequest) -> HttpResponse:
    """Show what is stored of each kind, how long it is kept, and what the next prune deletes."""
    require(request.user, MANAGE_ACCOUNT, Scope.objects.account())
    return render(request, "ops/retention.html", {"kinds": build_retention_report(get_database_time())})
