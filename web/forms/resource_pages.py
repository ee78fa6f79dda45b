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

from rbac.policy import require
from web.forms.page_forms import ConfirmForm, PageForm, RenameForm, get_posted_data
from web.forms.pages import PageRequest, require_sign_in
from web.http.problems import Problem, VersionConflict
from web.text_diffs import TextDiff, diff_values

Row = TypeVar("Row")


class Breadcrumb(NamedTuple):
    """A page above the one that is shown."""

    title: str
    url: str


class Notice(NamedTuple):
    """A consequence that a person has to weigh, with the usages that it is about."""

    title: str
    lines: Sequence[str] = ()
    usages: Any = None


class Obstacle(NamedTuple):
    """The reason why a page offers no button, with a link to what helps."""

    text: str
    label: str = ""
    url: str = ""


class ResourcePage(View, Generic[Row]):
    """A page about one resource, for signed-in people with a permission on it."""

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
        found = self.load(self.request, **self.kwargs)
        self.check_access(found)
        self.object = found

    def check_access(self, found: Any) -> None:
        """Raise `Forbidden` without the page's permission on the resource."""
        require(self.request.user, self.permission, found)

    def get_name(self) -> str:
        """Return the name of the resource as titles and messages give it."""
        return str(getattr(self.object, "name", self.object))

    def get_noun(self) -> str:
        """Return what buttons call the resource."""
        return self.noun

    def get_parents(self) -> list[Breadcrumb]:
        """Return the pages above the resource's own page."""
        return [Breadcrumb(title, reverse(name)) for title, name in self.parents]

    def get_breadcrumbs(self) -> list[Breadcrumb]:
        """Return the pages above this one; canceling leads to the last."""
        above = self.get_parents()
        if self.detail:
            above.append(Breadcrumb(self.get_name(), reverse(self.detail, args=[self.kwargs["pk"]])))
        return above

    def render(self, content: dict[str, Any], status: int, template: str = "") -> HttpResponse:
        """Render the page's template, or another one, with its place in the site."""
        breadcrumbs = self.get_breadcrumbs()
        place = {"breadcrumbs": breadcrumbs, "back": breadcrumbs[-1].url}
        return render(self.request, template or self.template_name, place | content, status=status)


class ConfirmPage(ResourcePage[Row]):
    """A page that asks before an operation, and names what it affects."""

    template_name = "web/confirm.html"
    verb: ClassVar[str]
    participle: ClassVar[str]
    # What the operation does.
    text: ClassVar[str] = ""
    # The message after the operation, with {name}.
    done: ClassVar[str]
    usage_title: ClassVar[str] = "It is still used"
    usage_advice: ClassVar[str] = "Change these to use something else. Then it can be deleted."
    # The label of the box that accepts the usages. Without one, the resource stays while it is used.
    although_used: ClassVar[str] = ""
    form_class: type[ConfirmForm] = ConfirmForm

    def perform(self, **given: Any) -> None:
        """Call the operation, with the values of the form."""
        raise NotImplementedError

    @cached_property
    def usages(self) -> Any:
        """Return what uses the resource; false if nothing does."""
        return self.get_usages()

    def get_usages(self) -> Any:
        """Return what uses the resource, for pages of resources that others can use."""
        return None

    def get_texts(self) -> list[str]:
        """Return the paragraphs that say what the operation does."""
        return [self.text] if self.text else []

    def get_notice(self) -> Notice | None:
        """Return what a person has to weigh: the usages, if there are any."""
        return Notice(self.usage_title, [self.usage_advice], self.usages) if self.usages else None

    def get_obstacle(self) -> Obstacle | None:
        """Return why the operation is not offered; by default, usages that cannot be accepted."""
        return Obstacle("") if self.usages and not self.although_used else None

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
            "here": self.verb if self.detail else title,
            "button": f"{self.verb} {self.get_noun()}",
            "refusal_title": f"The {self.get_noun()} was not {self.participle}",
            "texts": self.get_texts(),
            "notice": self.get_notice(),
            "obstacle": self.get_obstacle(),
        }
        return self.render(content, status)


class DeletePage(ConfirmPage[Row]):
    """A page that asks before a resource is deleted."""

    verb = "Delete"
    participle = "deleted"
    done = "{name} is deleted."

    def get_success_url(self) -> str:
        """Return the page above the deleted resource."""
        return self.get_parents()[-1].url


class FormPage(ResourcePage[Row]):
    """A page with a form that changes a resource."""

    template_name = "web/form.html"
    form_class: ClassVar[Callable[..., PageForm]]
    verb: ClassVar[str]
    participle: ClassVar[str] = "saved"
    button: ClassVar[str] = "Save"
    # A sentence below the fields, and the message afterwards, with {name}.
    hint: ClassVar[str] = ""
    done: ClassVar[str] = ""

    def save(self, form: Any) -> Any:
        """Call the operation with the values of a valid form, and return what it saved."""
        raise NotImplementedError

    def get_title(self) -> str:
        """Return the title of the page."""
        return f"{self.verb} {self.get_name()}"

    def get_hint(self) -> str:
        """Return the sentence below the fields."""
        return self.hint

    def get_form_options(self) -> dict[str, Any]:
        """Return the arguments of the form beside the posted values."""
        return {}

    def get_success_url(self, saved: Any) -> str:
        """Return where to go afterwards."""
        return self.get_breadcrumbs()[-1].url

    def get_context(self, form: Any) -> dict[str, Any]:
        """Return what the template needs beside the form."""
        return {}

    def build_form(self) -> PageForm:
        """Return the form, with the posted values if there are any."""
        files = self.request.FILES if self.request.method == "POST" else None
        return self.form_class(get_posted_data(self.request), files, **self.get_form_options())

    def get(self, request: PageRequest, **kwargs: Any) -> HttpResponse:
        """Show the form."""
        return self.render_form(self.build_form())

    def post(self, request: PageRequest, **kwargs: Any) -> HttpResponse:
        """Save what was entered, or show why it was refused."""
        form = self.build_form()
        if form.is_valid():
            try:
                saved = self.save(form)
            except VersionConflict as problem:
                self.prepare()
                return self.render_conflict(form, problem)
            except (Problem, ValidationError) as refusal:
                form.refuse(refusal)
                self.prepare()
            else:
                return self.finish(saved)
        return self.render_form(form)

    def finish(self, saved: Any) -> HttpResponse:
        """Answer after the operation: with a message, and a redirect."""
        if message := self.get_done_message(saved):
            messages.success(self.request, message)
        return redirect(self.get_success_url(saved))

    def get_done_message(self, saved: Any) -> str:
        """Return the message after the operation, empty for none."""
        return self.done.format(name=getattr(saved, "name", ""))

    def render_conflict(self, form: Any, problem: VersionConflict) -> HttpResponse:
        """Show that somebody saved another version meanwhile."""
        form.refuse(problem)
        return self.render_form(form)

    def render_form(self, form: PageForm, status: int | None = None, **more: Any) -> HttpResponse:
        """Render the form with its errors."""
        title = self.get_title()
        content = {
            "form": form,
            "title": title,
            "here": self.verb if self.detail else title,
            "button": self.button,
            "hint": self.get_hint(),
            "refusal_title": f"The {self.get_noun()} was not {self.participle}",
        }
        return self.render(content | self.get_context(form) | more, status or form.http_status)


class EditPage(FormPage[Row]):
    """A page that edits a resource."""

    verb = "Edit"
    done = "{name} is saved."
    # The attributes of the resource that the form begins with.
    fields: ClassVar[Sequence[str]] = ()

    def get_initial(self) -> dict[str, Any]:
        """Return the stored values, by the names of the form's fields."""
        return {name: getattr(self.object, name) for name in self.fields}

    def get_form_options(self) -> dict[str, Any]:
        """Return the values that the form begins with."""
        return {"initial": self.get_initial()}


class VersionedEditPage(EditPage[Row]):
    """A page that edits a resource with a version, which the form keeps in `version`.

    After a conflict, the entered values are shown with their difference from the stored ones. Saving again
    replaces the stored values.
    """

    def get_version(self) -> int:
        """Return the stored version."""
        return int(getattr(self.object, "version", 0))

    def get_entered(self, form: Any) -> dict[str, Any]:
        """Return the entered values, by the names of the form's fields."""
        return {name: form.cleaned_data[name] for name in self.fields}

    def get_form_options(self) -> dict[str, Any]:
        """Return the values that the form begins with."""
        return {"initial": self.get_initial() | {"version": self.get_version()}}

    def render_conflict(self, form: Any, problem: VersionConflict) -> HttpResponse:
        """Show the entered values, with their difference from the stored ones."""
        initial = self.get_entered(form) | {"version": self.get_version()}
        options = self.get_form_options() | {"initial": initial}
        return self.render_form(self.form_class(**options), status=409, diff=self.describe_change(form))

    def describe_change(self, form: Any) -> TextDiff:
        """Return what saving the entered values would change in the stored ones."""
        return diff_values(self.get_initial(), self.get_entered(form))


class RenamePage(EditPage[Row]):
    """A page that gives a resource another name."""

    verb = "Rename"
    participle = "renamed"
    button = "Rename"
    done = ""
    form_class = RenameForm
    fields = ("name",)

    def get_hint(self) -> str:
        """Return what stays."""
        text = "The identifier <code>{}</code> stays, and with it everything that names it."
        return format_html(text, getattr(self.object, "identifier", ""))


class CreatePage(FormPage[Row]):
    """A page that creates a resource in a scope, which its form offers."""

    verb = "New"
    participle = "created"

    def prepare(self) -> None:
        """Leave the permission to the form, which offers scopes. It raises `Forbidden` if there are none."""

    def get_title(self) -> str:
        """Return the title of the page."""
        return f"New {self.noun}"

    def get_form_options(self) -> dict[str, Any]:
        """Return for whom scopes are offered, and the one to begin with."""
        person, scope = self.request.user, self.request.current_scope
        return {"person": person, "scope": scope, "permission": self.permission}

    def get_breadcrumbs(self) -> list[Breadcrumb]:
        """Return the pages above the resource to create."""
        return self.get_parents()

    def get_success_url(self, saved: Any) -> str:
        """Return the page of the resource, or the one above it."""
        return reverse(self.detail, args=[saved.pk]) if self.detail else self.get_parents()[-1].url

    def render_form(self, form: PageForm, status: int | None = None, **more: Any) -> HttpResponse:
        """Render the form, with a button that names the resource."""
        title = self.get_title()
        return super().render_form(form, status, **{"button": f"Create {self.noun}", "here": title} | more)


class CreateChildPage(CreatePage[Row]):
    """A page that creates something inside the resource of its address; `noun` names what it creates."""

    def prepare(self) -> None:
        """Load the resource of the address. Raises `NotVisible` and `Forbidden`."""
        ResourcePage.prepare(self)

    def get_form_options(self) -> dict[str, Any]:
        """Return nothing: no scope is chosen."""
        return {}

    def get_breadcrumbs(self) -> list[Breadcrumb]:
        """Return the pages above, with the resource of the address."""
        return ResourcePage.get_breadcrumbs(self)

    def get_success_url(self, saved: Any) -> str:
        """Return the page of the resource of the address."""
        return self.get_breadcrumbs()[-1].url
