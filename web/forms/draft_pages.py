"""Pages that keep the entered values of a form while its user creates a resource for it."""

from collections.abc import Collection, Iterable
from typing import Any, ClassVar, Final

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.forms import Field
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils.functional import cached_property
from django.views import View

from rbac.models import Scope, User
from rbac.policy import list_permitted_scopes
from web.forms.drafts import (
    DRAFT_PARAMETER,
    ORIGIN_PARAMETER,
    NewResource,
    OpenDraft,
    delete_draft,
    get_draft,
    get_form_path,
    list_creation_scopes,
    save_draft,
)
from web.forms.page_forms import PageForm
from web.forms.pages import PageRequest
from web.http.problems import BadInput

DRAFT_GONE: Final = "The entered values are no longer kept. Enter them again."
ORIGIN_GONE: Final = "The form that you came from is no longer kept. Open it again after you saved this one."
UNKEPT: Final = "Secrets and files are not kept. Enter or choose them again."


def open_draft(request: PageRequest) -> OpenDraft | None:
    """Return the draft that the address of a form names, or None; `get_posted_data` returns its values."""
    key = request.GET.get(DRAFT_PARAMETER)
    draft = get_draft(request.user, key, path=request.path) if key else None
    if draft is not None:
        request.draft_data = draft.data
    elif key:
        messages.warning(request, DRAFT_GONE)
    return draft


def report_draft(request: PageRequest, draft: OpenDraft, field: Field | None = None) -> None:
    """Leave messages about the created resource, and about values that a draft does not keep.

    `field` is the one that gets the created resource, and may refuse it.
    """
    if draft.has_omitted:
        messages.warning(request, UNKEPT)
    if not draft.created_name:
        return
    noun = draft.row.noun.capitalize()
    try:
        if field is not None:
            field.clean(field.widget.value_from_datadict(draft.data, {}, draft.field))
    except ValidationError:
        messages.warning(request, f"{noun} {draft.created_name} was created, but you cannot use it here.")
    else:
        messages.success(request, f"{noun} {draft.created_name} created and selected.")


def leave_form(
    request: PageRequest,
    field: str,
    resource: NewResource | None,
    *,
    scope: Scope | None,
    omitted: Collection[str] = (),
    path: str = "",
) -> HttpResponse:
    """Keep the posted values, and go to the form of a new resource for a field.

    `path` is the address to return to, by default the requested one.

    Raises `BadInput` without a resource, and `Forbidden` if the user cannot create it.
    """
    if resource is None:
        raise BadInput("Nothing can be created for this field.")
    path = path or get_form_path(request)
    return redirect(
        save_draft(request, resource, user=request.user, field=field, scope=scope, path=path, omitted=omitted)
    )


def list_creatable(user: User, resources: Iterable[NewResource], scope: Scope | None) -> set[str]:
    """Return the resources that the user may create for a form of `scope`; a query for each."""
    by_noun = {resource.noun: resource for resource in resources}
    return {
        noun for noun, resource in by_noun.items() if list_creation_scopes(user, resource, scope).exists()
    }


class DraftPage(View):
    """Page with a form that can be left to create a resource for one of its fields."""

    request: PageRequest
    object: Any

    def build_form(self) -> PageForm:
        """Return the form of the page, with its posted values."""
        raise NotImplementedError

    def get_draft_scope(self) -> Scope | None:
        """Return the scope that resources created for this form must be visible from; None if unknown."""
        return getattr(self.object, "scope", None)

    def load_draft(self) -> OpenDraft | None:
        """Return the draft that the address names, after which the form has its values."""
        return open_draft(self.request)

    def report_draft(self, draft: OpenDraft, form: Any) -> None:
        """Leave messages about the created resource, and about values that a draft does not keep."""
        report_draft(self.request, draft, form.fields.get(draft.field))

    def delete_draft(self) -> None:
        """Delete the draft of a saved form."""
        delete_draft(self.request.user, self.request.GET.get(DRAFT_PARAMETER, ""))

    def leave_to_create(self, name: str) -> HttpResponseBase:
        """Keep the entered values, and go to the form of a new resource for a field."""
        form = self.build_form()
        return leave_form(
            self.request,
            name,
            form.get_new_resource(name),
            scope=self.get_draft_scope(),
            omitted=form.list_unkept_names(),
        )

    def list_new_nouns(self, form: PageForm) -> set[str]:
        """Return the resources that the user may create from within the form."""
        resources = form.list_new_resources()
        return list_creatable(self.request.user, resources, self.get_draft_scope() if resources else None)


class OriginPage(View):
    """Page that creates a resource, possibly for a form that its user left for it."""

    request: PageRequest
    noun: ClassVar[str]
    permission: ClassVar[str]
    button: ClassVar[str]

    @cached_property
    def origin(self) -> OpenDraft | None:
        """Return the draft of the form that the resource is created for; None for no form."""
        key = self.request.GET.get(ORIGIN_PARAMETER)
        draft = get_draft(self.request.user, key, noun=self.noun) if key else None
        if key and draft is None:
            messages.warning(self.request, ORIGIN_GONE)
        return draft

    def get_button(self) -> str:
        """Return the label of the button that creates the resource."""
        if self.origin is not None:
            return f"Create {self.noun} and return"
        return self.button or f"Create {self.noun}"

    def get_scope_options(self) -> dict[str, Any]:
        """Return the selected scope, and the condition for the scopes that the first form can use."""
        if self.origin is None:
            return {"scope": self.request.current_scope}
        return {"scope": self.origin.scope, "among": self.origin.scope_filter}

    def get_draft_scope(self) -> Scope | None:
        """Return the scope that is selected in the form."""
        path = self.request.POST.get("in_scope", "")
        selected = list_permitted_scopes(self.request.user, self.permission).filter(path=path).first()
        return selected or (self.request.current_scope if self.origin is None else self.origin.scope)

    def return_to_form(self, saved: Any) -> HttpResponseBase | None:
        """Select the saved resource in the form that needs it, and return there."""
        if self.origin is None:
            return None
        self.origin.add_created(saved)
        return redirect(self.origin.return_url)

    def render(self, content: dict[str, Any], status: int, template: str = "") -> HttpResponse:
        """Render the page; canceling leads back to the form that needs the resource."""
        if self.origin is not None:
            content |= {"back": self.origin.return_url, "origin": self.origin}
        response: HttpResponse = super().render(content, status, template)  # type: ignore[misc]
        return response
