"""Page of a principal's effective access to a resource."""

from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.forms.access_checks import EffectiveAccessForm
from accounts.queries.access_checks import list_principal_suggestions
from rbac.permissions import PERMISSIONS, RESOURCE_TYPES
from rbac.policy import PermissionVerdict, explain_permissions, list_member_scopes
from web.forms.pages import PageRequest, require_sign_in

MOST_SCOPES = 100


@dataclass(frozen=True)
class AccessSection:
    """Verdicts on one type of resource."""

    title: str
    rows: list[tuple[str, PermissionVerdict]]

    @property
    def granted(self) -> int:
        return sum(verdict.is_granted for _, verdict in self.rows)


@require_sign_in
@require_safe
def effective_access(request: PageRequest) -> HttpResponse:
    """Show each permission of a user or group on a resource, with the role that grants it."""
    scope = request.current_scope
    query = {"who": request.user.username, "scope": scope.path if scope else ""}
    query |= {key: value for key, value in request.GET.items() if isinstance(value, str) and value}
    form = EffectiveAccessForm(query, asker=request.user)
    content = {
        "form": form,
        "subjects": list_principal_suggestions(request.user),
        "has_scope": scope is not None,
    }
    content["scopes"] = list_member_scopes(request.user).order_by("path")[:MOST_SCOPES]
    if scope is not None and form.is_valid():
        thing, subject = form.cleaned_data["thing"], form.cleaned_data["subject"]
        content |= {
            "subject": subject,
            "thing": thing,
            "parts": _build_sections(explain_permissions(subject, thing)),
        }
    return render(request, "accounts/effective.html", content, status=form.http_status if scope else 200)


def _build_sections(verdicts: list[PermissionVerdict]) -> list[AccessSection]:
    sections: list[AccessSection] = []
    for resource in RESOURCE_TYPES:
        resource_verdicts = [
            verdict for verdict in verdicts if PERMISSIONS[verdict.permission].resource == resource.identifier
        ]
        if resource_verdicts:
            sections.append(
                AccessSection(
                    resource.title,
                    [(PERMISSIONS[verdict.permission].title, verdict) for verdict in resource_verdicts],
                )
            )
    return sections
