"""Pages that answer who may do what, and why."""

from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.forms.access_checks import AccessQuestionForm, EffectiveAccessForm
from accounts.queries.access_checks import list_principal_suggestions
from accounts.queries.access_questions import (
    DEPLOY,
    answer_access_question,
    describe_holders,
    list_holders,
)
from accounts.queries.granted_roles import VIEW_USERS
from rbac.models import Scope, User
from rbac.operations.users import MANAGE_USERS
from rbac.permissions import PERMISSIONS, RESOURCE_TYPES
from rbac.policy import (
    Forbidden,
    PermissionVerdict,
    can,
    can_anywhere,
    explain_permissions,
    list_member_scopes,
)
from web.forms.pages import PageRequest, require_sign_in
from web.http.pagination import paginate_items

MAX_SCOPES: Final = 100


@dataclass(frozen=True)
class AccessSection:
    """Verdicts on one type of resource."""

    title: str
    rows: list[tuple[str, PermissionVerdict]]

    @property
    def granted(self) -> int:
        return sum(verdict.is_granted for _, verdict in self.rows)


def build_question_context(request: PageRequest, form: AccessQuestionForm | None = None) -> dict[str, Any]:
    """Return the template context of the form that asks about access; three queries."""
    scope = request.current_scope
    initial = {"scope": scope.path if scope else "", "action": DEPLOY.value}
    return {
        "question_form": form or EffectiveAccessForm(asker=request.user, initial=initial),
        "subjects": list_principal_suggestions(request.user),
        "scopes": list_member_scopes(request.user).order_by("path")[:MAX_SCOPES],
    }


@require_sign_in
@require_safe
def effective_access(request: PageRequest) -> HttpResponse:
    """Answer whether a user or group can do something, and show each of their permissions with its reason."""
    scope = request.current_scope
    form = EffectiveAccessForm(_read_query(request, who=request.user.username), asker=request.user)
    context = {"has_scope": scope is not None, **build_question_context(request, form)}
    if scope is not None and _is_answerable(form):
        data = form.cleaned_data
        thing, subject, action = data["thing"], data["subject"], data["action"]
        if action is not None:
            context["answer"] = answer_access_question(request.user, subject, action, thing)
            context["may_assign"] = can_anywhere(request.user, MANAGE_USERS)
            context["is_person"] = isinstance(subject, User) and subject.kind == User.Kind.PERSON
        context["parts"] = _build_sections(explain_permissions(subject, thing))
    return render(
        request, "accounts/access/effective.html", context, status=form.http_status if scope else 200
    )


@require_sign_in
@require_safe
def list_who_can(request: PageRequest) -> HttpResponse:
    """List the people and service accounts that can do something, and why."""
    scope = request.current_scope
    form = AccessQuestionForm(_read_query(request, action=DEPLOY.value), asker=request.user)
    context = {"has_scope": scope is not None, **build_question_context(request, form)}
    if scope is not None and form.is_valid():
        thing, action = form.cleaned_data["thing"], form.cleaned_data["action"]
        context["question"] = action.describe(thing)
        context["is_deployment"] = action is DEPLOY
        context["own_answer"] = answer_access_question(request.user, request.user, action, thing)
        context["sees_people"] = can(request.user, VIEW_USERS, thing)
        context["sees_everybody"] = can(request.user, VIEW_USERS, Scope.objects.account())
        holders = list_holders(request.user, action, thing)
        page = paginate_items(holders, request, key=lambda holder: holder.user.username)
        context |= {
            "page": page,
            "count": len(holders),
            "holders": describe_holders(request.user, page.items),
        }
    return render(request, "accounts/access/who_can.html", context, status=form.http_status if scope else 200)


def _is_answerable(form: EffectiveAccessForm) -> bool:
    """Return whether a question is valid; a missing permission is an error of the form."""
    try:
        return form.is_valid()
    except Forbidden as refusal:
        text = f"You need the permission {refusal.permission} there to check the access of others."
        form.add_error("who", text)
        return False


def _read_query(request: PageRequest, **defaults: str) -> dict[str, str]:
    """Return the values of the address, with defaults and the chosen scope for missing ones."""
    scope = request.current_scope
    query = {**defaults, "scope": scope.path if scope else ""}
    return query | {key: value for key, value in request.GET.items() if isinstance(value, str) and value}


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
