"""Pages of the audit trail."""

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.audit_exports import export_entries
from accounts.forms.audit import AuditFilterForm
from accounts.queries.audit import VIEW_AUDIT, compute_changes, get_resource_page_url, list_readable_entries
from guards.limits import AUDIT_EXPORT_ROWS
from rbac.policy import NotVisible, can_anywhere
from web.forms.pages import PageRequest, require_sign_in
from web.http.pagination import paginate_queryset
from web.http.problems import BadInput


@require_sign_in
@require_safe
def audit_trail(request: PageRequest) -> HttpResponse:
    """List the audit entries of the current scope and the scopes below it, newest first."""
    form = AuditFilterForm(request.GET)
    entries = list_readable_entries(request.user, request.current_scope).defer("before", "after")
    try:
        entries = entries.filter(form.condition)
    except BadInput:
        entries = entries.none()
    content = {
        "page": paginate_queryset(entries, request),
        "filter": form,
        "most_exported": str(AUDIT_EXPORT_ROWS),
        "may_read": can_anywhere(request.user, VIEW_AUDIT),
    }
    return render(request, "accounts/audit/trail.html", content, status=form.http_status)


@require_sign_in
@require_safe
def export_audit_trail(request: PageRequest) -> HttpResponseBase:
    """Export all pages of the filtered list as a file."""
    entries = list_readable_entries(request.user, request.current_scope).filter(
        AuditFilterForm(request.GET).condition
    )
    return export_entries(request, entries, request.GET.get("as", ""))


@require_sign_in
@require_safe
def audit_entry(request: PageRequest, pk: int) -> HttpResponse:
    """Show an audit entry with the differences between before and after."""
    entry = list_readable_entries(request.user).filter(pk=pk).first()
    if entry is None:
        raise NotVisible("This audit entry does not exist, or you cannot view it.")
    content = {
        "entry": entry,
        "changes": compute_changes(entry.before, entry.after),
        "page_of_thing": get_resource_page_url(entry, request.user),
    }
    return render(request, "accounts/audit/entry.html", content)
