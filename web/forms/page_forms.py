"""Base forms of pages, which show refusals of operations next to their fields."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, cast

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db.models import Q, QuerySet
from django.forms.utils import ErrorDict
from django.http import HttpRequest, QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString

from rbac.models import Scope
from rbac.policy import Forbidden, Principal, list_permitted_scopes
from web.forms.drafts import DraftData, NewResource
from web.http.problems import BadInput, Problem, ResourceInUse, convert_exception


def get_posted_data(request: HttpRequest) -> QueryDict | None:
    """Return the posted data, possibly empty, or that of the request's draft; None for other requests."""
    return request.POST if request.method == "POST" else getattr(request, "draft_data", None)


# RadioSelect first: Django counts it among the selects, and it is drawn as several inputs.
_UNSTYLED_WIDGETS = (forms.RadioSelect, forms.CheckboxInput, forms.FileInput, forms.Textarea)


USAGES_NOT_ACCEPTED = "The resource is still in use. Select this checkbox to delete it anyway."


class PageForm(forms.Form):
    """Form that shows errors of an operation next to their field, or above the form without one."""

    # Fields required by other input: marked neither as optional nor as required.
    conditional_fields: ClassVar[frozenset[str]] = frozenset()
    # Names of fields that the page shows side by side; the fields of a pair follow each other in the form.
    pairs: ClassVar[Sequence[Collection[str]]] = ()
    # Resources that can be created from within the form, by the field that gets them.
    new_resources: ClassVar[Mapping[str, NewResource]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, resource in self.new_resources.items():
            if name in self.fields:
                self.fields[name].new_resource = resource  # type: ignore[attr-defined]
        for field in self.fields.values():
            widget = field.widget
            css = "select" if isinstance(widget, forms.Select) else "input"
            if not isinstance(widget, _UNSTYLED_WIDGETS):
                widget.attrs.setdefault("class", css)
                widget.attrs.setdefault("autocomplete", "off")

    def get_rows(self) -> list[list[forms.BoundField]]:
        """Return the visible fields in rows; the fields of a pair share one."""
        rows: list[list[forms.BoundField]] = []
        last_pair: Collection[str] | None = None
        for field in self.visible_fields():
            pair = next((names for names in self.pairs if field.name in names), None)
            if pair is not None and pair is last_pair:
                rows[-1].append(field)
            else:
                rows.append([field])
            last_pair = pair
        return rows

    @property
    def errors(self) -> ErrorDict:
        """Return the errors of the fields; none for values of a draft."""
        return ErrorDict() if isinstance(self.data, DraftData) else super().errors

    def list_new_resources(self) -> list[NewResource]:
        """Return the resources that can be created from within the form."""
        return list(self.new_resources.values())

    def get_new_resource(self, name: str) -> NewResource | None:
        """Return the resource that can be created for the field with a posted name, or None."""
        return self.new_resources.get(name) if name in self.fields else None

    def list_unkept_names(self) -> set[str]:
        """Return the posted names that a draft leaves out: secrets and files."""
        return {
            self.add_prefix(name)
            for name, field in self.fields.items()
            if isinstance(field.widget, forms.PasswordInput | forms.FileInput)
            or getattr(field.widget, "is_secret", False)
        }

    @property
    def http_status(self) -> int:
        """Return the status of a page that shows this form: 400 where something entered was refused."""
        return 400 if self.is_bound and self.errors else 200

    def require_valid(self, detail: str = "The input is not valid.") -> dict[str, Any]:
        """Return the validated values. Raises `BadInput` with the errors of each field."""
        if self.is_valid():
            return dict(self.cleaned_data)
        errors = [
            {"path": "" if name == NON_FIELD_ERRORS else name, "message": str(message)}
            for name, messages in self.errors.items()
            for message in messages
        ]
        raise BadInput(detail, errors=errors)

    def add_problem(self, problem: Problem | ValidationError) -> None:
        """Show the errors of a refused operation."""
        content = convert_exception(problem) or {"detail": str(problem)}
        for error in content.get("errors") or [{"path": "", "message": content["detail"]}]:
            path = str(error.get("path", ""))
            field = path if path in self.fields else None
            # A refusal that names no field of this form keeps the name of its place.
            message = str(error["message"]) if field or not path else f"{path}: {error['message']}"
            self.add_error(field, message)


class ConfirmForm(PageForm):
    """Checkboxes of a confirmation; `although_used` is the label of the one that accepts usages."""

    although_used = forms.BooleanField(required=False)

    def __init__(self, *args: Any, although_used: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["although_used"].label = although_used
        if not although_used:
            del self.fields["although_used"]

    def refuse_operation(self, problem: Problem | ValidationError) -> int:
        """Show why the operation was refused, and return the status of the page."""
        if isinstance(problem, ResourceInUse) and "although_used" in self.fields:
            self.add_error("although_used", USAGES_NOT_ACCEPTED)
            return 400
        self.add_problem(problem)
        return 409


class ScopeField(forms.ModelChoiceField):
    """Choice of the scope of a new resource, posted as its path."""

    def __init__(self, *, label: str = "Scope", help_text: str = "") -> None:
        super().__init__(
            Scope.objects.none(), to_field_name="path", empty_label=None, label=label, help_text=help_text
        )

    def set_choices(
        self, person: Principal, permission: str, chosen: Scope | None, *, among: Q | None = None
    ) -> None:
        """Set the scopes where `permission` is granted as choices. Raises `Forbidden` if there are none.

        With `among`, only those that match the condition.
        """
        scopes: QuerySet[Scope] = list_permitted_scopes(person, permission).order_by("path")
        if among is not None:
            scopes = scopes.filter(among)
        self.queryset = scopes
        if not scopes.exists():
            raise Forbidden(permission)
        if chosen is not None and scopes.filter(pk=chosen.pk).exists():
            self.initial = chosen.path

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.path})"


def has_line_end(text: str) -> bool:
    """Return whether a text has several lines: a text input would join them."""
    return "\n" in text or "\r" in text


# The marker and its first line. An escaped line end between them, as in a key in JSON, is not lost.
_JOINED_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]+-----[ \t]*[A-Za-z0-9+/]")


def has_lost_line_ends(text: str) -> bool:
    """Return whether a key or certificate in PEM format has the joined lines of a text input."""
    return not has_line_end(text) and "-----END " in text and _JOINED_PEM.search(text) is not None


# The form shows an area instead, once it was refused.
LOST_LINE_ENDS: Final = (
    "has lost its line ends: browsers remove them from a field of one line, so paste it again here"
)


def needs_area(text: str) -> bool:
    """Return whether a text has several lines, or had them before a text input joined them."""
    return has_line_end(text) or has_lost_line_ends(text)


def normalize_line_ends(text: str) -> str:
    """Return a posted text with the line ends of the API; browsers send `\\r\\n`."""
    return text.replace("\r\n", "\n")


class LinesField(forms.CharField):
    """Text of any number of lines, with the line ends of the API.

    A joined key or certificate is refused, unless it was entered in an area: no browser has joined it there.
    """

    is_from_area = False

    def to_python(self, value: Any) -> str:
        """Return the text."""
        return normalize_line_ends(str(super().to_python(value)))

    def validate(self, value: Any) -> None:
        """Raise `ValidationError` for lost line ends."""
        super().validate(value)
        if has_lost_line_ends(value) and not self.is_from_area:
            text = f"The text {LOST_LINE_ENDS}, or save again to keep it on one line."
            raise ValidationError(text, code="lost_line_ends")


class LinesArea(forms.Textarea):
    """Area of a `LinesField`, with a hidden input that says so."""

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        """Return the HTML of the area."""
        mark = format_html('<input type="hidden" name="{}" value="1">', _name_area_mark(name))
        return super().render(name, value, attrs, renderer) + mark


def _name_area_mark(name: str) -> str:
    return f"{name}:is_area"


def show_lines(form: forms.Form, name: str, *, rows: int, default: str = "") -> None:
    """Turn the text input of a `LinesField` into an area if its value or `default` needs one.

    The others stay text inputs, where Enter submits the form.
    """
    field = cast("LinesField", form.fields[name])
    field.is_from_area = _name_area_mark(form.add_prefix(name)) in form.data
    if needs_area(str(form[name].value() or "")) or needs_area(default):
        attributes = field.widget.attrs
        css = f"{attributes.get('class', 'input')} area"
        field.widget = LinesArea(attrs={**attributes, "class": css, "rows": rows})
        field.strip = False
