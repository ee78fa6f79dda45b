"""Generic pages of a resource: confirm, create and edit."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.views import View

from rbac.models import Scope
from rbac.policy import require
from web.forms.draft_pages import DraftPage, OriginPage
from web.forms.drafts import CREATE_NAME
from web.forms.page_forms import ConfirmForm, PageForm, get_posted_data
from web.forms.pages import PageRequest, require_sign_in
from web.forms.resource_forms import RenameForm
from web.http.problems import Problem, VersionConflict
from web.managed_resources import ChangeProposed, find_management
from web.text_diffs import TextDiff, diff_values

Row = TypeVar("Row")


class Breadcrumb(NamedTuple):
    """Parent page of the current page."""

    title: str
    url: str


class Notice(NamedTuple):
    """A consequence that a person has to weigh, with the usages that it is about."""

    title: str
    lines: Sequence[str] = ()
    usages: Any = None


class Obstacle(NamedTuple):
    """Reason for a missing button, with a link to the next step."""

    text: str
    label: str = ""
    url: str = ""


def report_proposal(request: HttpRequest, proposed: ChangeProposed) -> None:
    """Store a proposed change, and leave a message about it."""
    facts, manager = proposed.store(), proposed.management.manager
    where = f"{facts['file']} of the branch {facts['branch']}"
    messages.success(request, f"The change is committed to {where}. Its state is on the page of {manager}.")


class ResourcePage(View, Generic[Row]):
    """Page of one resource for signed-in users with a permission on it."""

    http_method_names = ["get", "head", "post"]
    template_name: ClassVar[str]
    # Returns the resource of the address. Raises `NotVisible` (404).
    load: ClassVar[Callable[..., Any]]
    # Needed on the resource: without it, the page is refused (403).
    permission: ClassVar[str]
    # Titles and URL names of the pages above, and the URL name of the resource's own page if it has one.
    parents: ClassVar[Sequence[tuple[str, str]]] = ()
    detail: ClassVar[str] = ""
    # What buttons call the resource.
    noun: ClassVar[str]
    # The page's own breadcrumb. Empty: the verb, or the title if the resource has no page of its own.
    here: ClassVar[str] = ""
    request: PageRequest
    object: Row

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Callable[..., HttpResponseBase]:
        """Return the view behind sign-in."""
        return require_sign_in(super().as_view(**initkwargs))

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Prepare the page, then serve it."""
        if (request.method or "").lower() in self.http_method_names:
            self.prepare()
        return super().dispatch(request, *args, **kwargs)

    def prepare(self) -> None:
        """Load the resource of the address. Raises `NotVisible` and `Forbidden`."""
        resource = self.load(self.request, **self.kwargs)
        self.check_access(resource)
        self.object = resource

    def check_access(self, resource: Any) -> None:
        """Raise `Forbidden` without the page's permission on the resource."""
        require(self.request.user, self.permission, resource)

    def get_page_name(self) -> str:
        """Return the name of the resource's own page."""
        return str(getattr(self.object, "name", self.object))

    def get_name(self) -> str:
        """Return the name of what the page changes, as titles and messages give it."""
        return self.get_page_name()

    def get_noun(self) -> str:
        """Return the name of the resource on buttons."""
        return self.noun

    def get_parents(self) -> list[Breadcrumb]:
        """Return the pages above the resource's own page."""
        return [Breadcrumb(title, reverse(name)) for title, name in self.parents]

    def get_breadcrumbs(self) -> list[Breadcrumb]:
        """Return the pages above this one; canceling leads to the last."""
        above = self.get_parents()
        if self.detail:
            above.append(Breadcrumb(self.get_page_name(), reverse(self.detail, args=[self.kwargs["pk"]])))
        return above

    def render(self, content: dict[str, Any], status: int, template: str = "") -> HttpResponse:
        """Render the page's template, or another one, with its place in the site."""
        breadcrumbs = self.get_breadcrumbs()
        place = {"breadcrumbs": breadcrumbs, "back": breadcrumbs[-1].url}
        return render(self.request, template or self.template_name, place | content, status=status)


class ConfirmPage(ResourcePage[Row]):
    """Confirmation page of an operation, with its effects."""

    template_name = "web/confirm.html"
    verb: ClassVar[str]
    # What the operation does.
    text: ClassVar[str] = ""
    # The message after the operation, with {name}.
    done: ClassVar[str]
    usage_title: ClassVar[str] = "Still in use"
    usage_advice: ClassVar[str] = "Change these resources first, then delete it."
    # Label of the checkbox that accepts usages. If empty, a resource in use cannot be deleted.
    although_used: ClassVar[str] = ""
    form_class: type[ConfirmForm] = ConfirmForm

    def perform(self, **values: Any) -> None:
        """Call the operation, with the values of the form."""
        raise NotImplementedError

    @cached_property
    def usages(self) -> Any:
        """Return the usages of the resource; false if there are none."""
        return self.get_usages()

    def get_usages(self) -> Any:
        """Return the usages of the resource, for pages of shared resources."""
        return None

    def get_texts(self) -> list[str]:
        """Return the paragraphs that describe the operation."""
        return [self.text] if self.text else []

    def get_notice(self) -> Notice | None:
        """Return the notice about usages, if there are any."""
        return Notice(self.usage_title, [self.usage_advice], self.usages) if self.usages else None

    def get_obstacle(self) -> Obstacle | None:
        """Return why the operation is not offered; by default, usages that cannot be accepted."""
        return Obstacle("") if self.usages and not self.although_used else None

    def find_outside_obstacle(self) -> Obstacle | None:
        """Return why the operation belongs elsewhere, if it does."""
        return None

    def get_success_url(self) -> str:
        """Return where to go afterwards."""
        return self.get_breadcrumbs()[-1].url

    def build_form(self) -> ConfirmForm:
        """Return the form with the boxes that this resource needs."""
        return self.form_class(
            get_posted_data(self.request), although_used=self.although_used if self.usages else ""
        )

    def get(self, request: PageRequest, **kwargs: Any) -> HttpResponse:
        """Ask."""
        return self.render_question(self.build_form())

    def post(self, request: PageRequest, **kwargs: Any) -> HttpResponse:
        """Call the operation, or show why it was refused."""
        form, name = self.build_form(), self.get_name()
        if not form.is_valid():
            return self.render_question(form, 400)
        try:
            self.perform(**form.cleaned_data)
        except (Problem, ValidationError) as problem:
            # Another user may have changed the resource meanwhile.
            self.prepare()
            return self.render_question(form, form.refuse_operation(problem))
        messages.success(request, self.get_done_message(name))
        return redirect(self.get_success_url())

    def get_done_message(self, name: str) -> str:
        """Return the message after the operation."""
        return self.done.format(name=name)

    def render_question(self, form: PageForm, status: int = 200) -> HttpResponse:
        """Render the question with its consequences, or with the reason of a refusal."""
        title = f"{self.verb} {self.get_name()}"
        content = {
            "form": form,
            "title": title,
            "here": self.here or (self.verb if self.detail else title),
            "button": f"{self.verb} {self.get_noun()}",
            "refusal_title": f"Could not {self.verb.lower()} the {self.get_noun()}",
            "texts": self.get_texts(),
            "notice": self.get_notice(),
            "obstacle": self.find_outside_obstacle() or self.get_obstacle(),
        }
        return self.render(content, status)


class DeletePage(ConfirmPage[Row]):
    """Confirmation page of a deletion."""

    verb = "Delete"
    done = "{name} deleted."

    def find_outside_obstacle(self) -> Obstacle | None:
        """Return where the resource is managed, if not in Slipway."""
        management = find_management(self.object)
        return Obstacle(str(management)) if management else None

    def get_success_url(self) -> str:
        """Return the page above the deleted resource."""
        return self.get_parents()[-1].url


class FormPage(DraftPage, ResourcePage[Row]):
    """A page with a form that changes a resource."""

    template_name = "web/form.html"
    form_class: ClassVar[Callable[..., PageForm]]
    verb: ClassVar[str]
    # Empty: the verb and the name of the resource.
    title: ClassVar[str] = ""
    button: ClassVar[str] = "Save"
    # A sentence below the fields, the title of a refusal, and the message after saving, with {name}.
    hint: ClassVar[str] = ""
    refusal_title: ClassVar[str] = "Could not save"
    done: ClassVar[str] = ""

    def save(self, form: Any) -> Any:
        """Call the operation with the values of a valid form, and return the saved resource."""
        raise NotImplementedError

    def get_title(self) -> str:
        """Return the title of the page."""
        return self.title or f"{self.verb} {self.get_name()}"

    def get_here(self) -> str:
        """Return the page's own breadcrumb."""
        return self.here or (self.verb if self.detail else self.get_title())

    def get_button(self) -> str:
        """Return the label of the button that saves."""
        return self.button

    def get_hint(self) -> str:
        """Return the sentence below the fields."""
        return self.hint

    def get_form_options(self) -> dict[str, Any]:
        """Return the arguments of the form, without the posted values."""
        return {}

    def get_success_url(self, saved: Any) -> str:
        """Return the URL to go to after saving."""
        return self.get_breadcrumbs()[-1].url

    def get_done_message(self, saved: Any) -> str:
        """Return the message after saving, empty for none."""
        return self.done.format(name=getattr(saved, "name", ""))

    def get_context(self, form: Any) -> dict[str, Any]:
        """Return the template's values that only this page has."""
        return {}

    def build_form(self) -> PageForm:
        """Return the form, with the posted values if there are any."""
        files = self.request.FILES if self.request.method == "POST" else None
        return self.form_class(get_posted_data(self.request), files, **self.get_form_options())

    def get(self, request: PageRequest, **kwargs: Any) -> HttpResponseBase:
        """Show the form, with the values of the draft that the address names."""
        draft = self.load_draft()
        form = self.build_form()
        if draft is None:
            return self.render_form(form)
        self.report_draft(draft, form)
        return self.render_form(form, 200)

    def return_to_form(self, saved: Any) -> HttpResponseBase | None:
        """Return to the form that needs the saved resource; None if it was not created for one."""
        return None

    def post(self, request: PageRequest, **kwargs: Any) -> HttpResponseBase:
        """Save the entered values, or show why they were refused."""
        if CREATE_NAME in request.POST:
            return self.leave_to_create(request.POST[CREATE_NAME])
        form = self.build_form()
        if not form.is_valid():
            return self.render_form(form)
        try:
            saved = self.save(form)
        except ChangeProposed as proposed:
            self.delete_draft()
            report_proposal(request, proposed)
            return redirect(self.get_breadcrumbs()[-1].url)
        except VersionConflict as problem:
            return self.render_conflict(form, problem)
        except (Problem, ValidationError) as problem:
            # The operation may have written the entered values on the resource.
            self.prepare()
            form.add_problem(problem)
            return self.render_form(form)
        self.delete_draft()
        return self.return_to_form(saved) or self.finish(saved)

    def finish(self, saved: Any) -> HttpResponseBase:
        """Answer after saving: leave a message, and redirect."""
        if message := self.get_done_message(saved):
            messages.success(self.request, message)
        return redirect(self.get_success_url(saved))

    def render_conflict(self, form: Any, problem: VersionConflict) -> HttpResponse:
        """Show that someone else saved a newer version."""
        form.add_problem(problem)
        return self.render_form(form)

    def render_form(self, form: PageForm, status: int | None = None, **more: Any) -> HttpResponse:
        """Render the form with its errors."""
        content = {
            "form": form,
            "title": self.get_title(),
            "here": self.get_here(),
            "button": self.get_button(),
            "hint": self.get_hint(),
            "refusal_title": self.refusal_title,
            "new_nouns": self.list_new_nouns(form),
        }
        return self.render(content | self.get_context(form) | more, status or form.http_status)


class EditPage(FormPage[Row]):
    """A page that edits a resource."""

    verb = "Edit"
    done = "{name} saved."
    # Attributes of the resource that the form starts with.
    fields: ClassVar[Sequence[str]] = ()

    def get_initial(self) -> dict[str, Any]:
        """Return the stored values, by the names of the form's fields."""
        return {name: getattr(self.object, name) for name in self.fields}

    def render_form(self, form: PageForm, status: int | None = None, **more: Any) -> HttpResponse:
        """Render the form; of a resource that is managed elsewhere, without the button that saves."""
        return super().render_form(form, status, management=find_management(self.object), **more)

    def get_form_options(self) -> dict[str, Any]:
        """Return the values that the form starts with, unless values were posted."""
        return {} if self.request.method == "POST" else {"initial": self.get_initial()}


class VersionedEditPage(EditPage[Row]):
    """A page that edits a resource with a version, which the form keeps in `version`.

    After a conflict, the entered values are shown with their difference from the stored ones. Saving again
    replaces the stored values.
    """

    def get_version(self) -> int:
        """Return the stored version."""
        return int(getattr(self.object, "version", 0))

    def get_opened_version(self, form: Any) -> int:
        """Return the version that the form was opened with; 0, which conflicts, if it is missing."""
        return int(form.cleaned_data["version"] or 0)

    def lock_opened_version(self, form: Any) -> None:
        """Lock the resource until the transaction ends. Raises `VersionConflict` if it is a newer version."""
        resource: Any = self.object
        rows = type(resource)._default_manager.filter(pk=resource.pk, version=self.get_opened_version(form))
        if rows.select_for_update().first() is None:
            raise VersionConflict("Someone else changed this after you opened it. Nothing was saved.")

    def get_entered(self, form: Any) -> dict[str, Any]:
        """Return the entered values, by the names of the form's fields."""
        return {name: form.cleaned_data[name] for name in self.fields}

    def get_initial(self) -> dict[str, Any]:
        """Return the stored values and the version, by the names of the form's fields."""
        return self.get_stored() | {"version": self.get_version()}

    def get_stored(self) -> dict[str, Any]:
        """Return the stored values, by the names of the form's fields."""
        return super().get_initial()

    def render_conflict(self, form: Any, problem: VersionConflict) -> HttpResponse:
        """Show the entered values, with their difference from the stored ones."""
        self.prepare()
        initial = self.get_entered(form) | {"version": self.get_version()}
        options = self.get_form_options() | {"initial": initial}
        return self.render_form(self.form_class(**options), status=409, diff=self.describe_change(form))

    def describe_change(self, form: Any) -> TextDiff:
        """Return the difference between the stored and the entered values."""
        return diff_values(self.get_stored(), self.get_entered(form))


class RenamePage(EditPage[Row]):
    """A page that gives a resource a new name."""

    verb = "Rename"
    button = "Rename"
    done = ""
    form_class: ClassVar[Callable[..., PageForm]] = RenameForm
    fields = ("name",)

    def get_hint(self) -> str:
        """Return the sentence about the identifier, which stays."""
        text = "The identifier <code>{}</code> does not change, so references keep working."
        return self.hint or format_html(text, getattr(self.object, "identifier", ""))


class CreatePage(OriginPage, FormPage[Row]):
    """A page that creates a resource in a scope that is chosen in the form."""

    button = ""

    def prepare(self) -> None:
        """Do nothing: the form offers the permitted scopes, and raises `Forbidden` without any."""

    def get_title(self) -> str:
        """Return the title of the page."""
        return self.title or f"New {self.noun}"

    def get_here(self) -> str:
        """Return the page's own breadcrumb."""
        return self.here or self.get_title()

    def get_button(self) -> str:
        """Return the label of the button that creates the resource."""
        if self.origin is not None:
            return f"Create {self.noun} and return"
        return self.button or f"Create {self.noun}"

    def get_form_options(self) -> dict[str, Any]:
        """Return the user and the permission that decide the offered scopes, and the selected scope."""
        user, scopes = self.request.user, self.get_scope_options()
        return {"person": user, "permission": self.permission, **scopes}

    def get_breadcrumbs(self) -> list[Breadcrumb]:
        """Return the pages above the new resource."""
        return self.get_parents()

    def get_success_url(self, saved: Any) -> str:
        """Return the page of the resource, or the one above it."""
        return reverse(self.detail, args=[saved.pk]) if self.detail else self.get_parents()[-1].url


class CreateChildPage(CreatePage[Row]):
    """Page that creates a child of the resource in the URL; `noun` names the new resource."""

    def prepare(self) -> None:
        """Load the resource of the address. Raises `NotVisible` and `Forbidden`."""
        ResourcePage.prepare(self)

    def get_form_options(self) -> dict[str, Any]:
        """Return nothing: there is no scope to choose."""
        return {}

    def get_breadcrumbs(self) -> list[Breadcrumb]:
        """Return the pages above, and the resource of the address."""
        return ResourcePage.get_breadcrumbs(self)

    def get_success_url(self, saved: Any) -> str:
        """Return the page of the resource of the address."""
        return self.get_breadcrumbs()[-1].url

    def get_draft_scope(self) -> Scope | None:
        """Return the scope of the resource in the address."""
        return FormPage.get_draft_scope(self)
