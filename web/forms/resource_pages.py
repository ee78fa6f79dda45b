"""Generic pages of a resource: confirm, create and edit."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import cached_property
from django.views import View

from rbac.policy import require
from web.forms.page_forms import ConfirmForm, PageForm, get_posted_data
from web.forms.pages import PageRequest, require_sign_in
from web.http.problems import Problem

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

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Callable[..., HttpResponseBase]:
        """Return the view behind sign-in."""
        return require_sign_in(super().as_view(**initkwargs))

    @cached_property
    def object(self) -> Row:
        """Return the resource of the address. Raises `NotVisible` and `Forbidden`."""
        found: Row = self.load(self.request, **self.kwargs)
        self.check_access(found)
        return found

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

    def render(self, content: dict[str, Any], status: int) -> HttpResponse:
        """Render the page's template with its place in the site."""
        breadcrumbs = self.get_breadcrumbs()
        place = {"breadcrumbs": breadcrumbs, "back": breadcrumbs[-1].url}
        return render(self.request, self.template_name, place | content, status=status)


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
