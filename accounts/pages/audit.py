"""Pages of the audit trail: what was done, by whom, and what it changed."""

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.audit_changes import changes_of
from accounts.audit_export import export_of
from accounts.audit_links import page_of_thing
from accounts.audit_trail import VIEW, readable
from accounts.forms.audit import AuditFilter
from guards.limits import AUDIT_EXPORT_ROWS
from rbac.policy import NotVisible, can_anywhere
from web.pages import PageRequest, page
from web.paging import keyset
from web.problems import BadInput


@page
@require_safe
def audit_trail(request: PageRequest) -> HttpResponse:
    """This will list what was done in the chosen scope and below, newest first."""
    wanted = AuditFilter(request.GET)
    found = readable(request.user, request.current_scope).defer("before", "after")
    try:
        found = found.filter(wanted.condition)
    except BadInput:
        found = found.none()
    content = {
        "page": keyset(found, request),
        "filter": wanted,
        "most_exported": str(AUDIT_EXPORT_ROWS),
        "may_read": can_anywhere(request.user, VIEW),
    }
    return render(request, "accounts/audit/trail.html", content, status=wanted.http_status)


@page
@require_safe
def export_audit_trail(request: PageRequest) -> HttpResponseBase:
    """This will give what the list shows, all pages of it, as a file."""
    found = readable(request.user, request.current_scope).filter(AuditFilter(request.GET).condition)
    return export_of(request, found, request.GET.get("as", ""))


@page
@require_safe
def audit_entry(request: PageRequest, pk: int) -> HttpResponse:
    """This will show one entry whole, with what differs between before and after."""
    entry = readable(request.user).filter(pk=pk).first()
    if entry is None:
        raise NotVisible("No such audit entry.")
    content = {
        "entry": entry,
        "changes": changes_of(entry.before, entry.after),
        "page_of_thing": page_of_thing(entry, request.user),
    }
    return render(request, "accounts/audit/entry.html", content)
