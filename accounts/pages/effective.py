"""The page that says what somebody may do with a thing, and by which role."""

from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.forms.effective import EffectiveAccessForm
from accounts.subjects import suggestions
from rbac.permissions import PERMISSIONS, RESOURCES
from rbac.policy import Verdict, explain, scopes_of_member
from web.pages import PageRequest, page

MOST_SCOPES = 100


@dataclass(frozen=True)
class Part:
    """The verdicts on one kind of resource."""

    title: str
    rows: list[tuple[str, Verdict]]

    @property
    def granted(self) -> int:
        return sum(verdict.permitted for _, verdict in self.rows)


@page
@require_safe
def effective_access(request: PageRequest) -> HttpResponse:
    """This will show each permission of a person or group on a thing, with the role that it comes from."""
    scope = request.current_scope
    asked = {"who": request.user.username, "scope": scope.path if scope else ""}
    asked |= {key: value for key, value in request.GET.items() if isinstance(value, str) and value}
    form = EffectiveAccessForm(asked, asker=request.user)
    content = {"form": form, "subjects": suggestions(request.user), "has_scope": scope is not None}
    content["scopes"] = scopes_of_member(request.user).order_by("path")[:MOST_SCOPES]
    if scope is not None and form.is_valid():
        thing, subject = form.cleaned_data["thing"], form.cleaned_data["subject"]
        content |= {"subject": subject, "thing": thing, "parts": _parts(explain(subject, thing))}
    return render(request, "accounts/effective.html", content, status=form.http_status if scope else 200)


def _parts(verdicts: list[Verdict]) -> list[Part]:
    found: list[Part] = []
    for resource in RESOURCES:
        mine = [one for one in verdicts if PERMISSIONS[one.permission].resource == resource.identifier]
        if mine:
            found.append(Part(resource.title, [(PERMISSIONS[one.permission].title, one) for one in mine]))
    return found
