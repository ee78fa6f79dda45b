"""Form of an import: files or pasted text, and where the service is deployed to."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict

from connectors.models import Connector
from connectors.queries import list_connectors
from guards.limits import IMPORT_BYTES, NAME_CHARACTERS
from pipelines.imports.proposals import TOOLS, ImportSpec
from pipelines.imports.source_files import ImportRefused
from rbac.models import Scope
from rbac.policy import Principal, filter_visible
from web.forms.page_forms import ScopeField
from web.forms.resource_forms import ScopedForm
from web.http.problems import Problem

_HEADER: Final = re.compile(r"^=== (\S.*?)\s*$", re.MULTILINE)
_LEVELS: Final[Mapping[str, str]] = {Scope.Kind.ACCOUNT: "account.", Scope.Kind.ORGANIZATION: "org."}


class _FilesInput(forms.ClearableFileInput):
    """Input for several files."""

    allow_multiple_selected = True


class _FilesField(forms.FileField):
    """Several files, as a list."""

    widget = _FilesInput

    def clean(self, data: Any, initial: Any = None) -> list[UploadedFile]:
        """Return the files. Raises `ValidationError` for one that is empty or has no name."""
        rows: Sequence[Any] = data if isinstance(data, list | tuple) else [data] if data else []
        return [super(_FilesField, self).clean(row, initial) for row in rows]


class ImportForm(ScopedForm):
    """Form of an import; uploaded files are added to the text, so that a preview can be repeated."""

    conditional_fields = frozenset({"uploads", "texts", "connector"})
    pairs = (
        ("tool", "in_scope"),
        ("environment", "connector"),
        ("infrastructure", "service"),
        ("region", "cluster"),
    )

    tool = forms.ChoiceField(label="From", choices=list(TOOLS.items()))
    in_scope = ScopeField(help_text="Service, environment and pipeline are created here.")
    uploads = _FilesField(
        label="Files",
        required=False,
        help_text="The configuration, the service definition and the task definition.",
    )
    texts = forms.CharField(
        label="Or paste the files",
        required=False,
        strip=False,
        max_length=int(IMPORT_BYTES),
        widget=forms.Textarea(attrs={"class": "input area mono", "rows": 8, "spellcheck": "false"}),
        help_text="Each file begins with a line such as === ecspresso.yml",
    )
    environment = forms.CharField(
        max_length=int(NAME_CHARACTERS),
        help_text="Identifier, such as dev. It is created if it does not exist.",
    )
    connector = forms.ChoiceField(
        label="AWS connector", required=False, help_text="For an infrastructure that does not exist yet."
    )
    infrastructure = forms.CharField(
        required=False, max_length=int(NAME_CHARACTERS), help_text="Identifier; that of the cluster if empty."
    )
    service = forms.CharField(
        required=False,
        max_length=int(NAME_CHARACTERS),
        help_text="Identifier; that of the ECS service if empty.",
    )
    region = forms.CharField(required=False, max_length=64, help_text="Taken from the files if empty.")
    cluster = forms.CharField(required=False, max_length=255, help_text="Taken from the files if empty.")
    values = forms.CharField(
        label="Environment variables",
        required=False,
        max_length=int(IMPORT_BYTES),
        widget=forms.Textarea(attrs={"class": "input area mono", "rows": 3, "spellcheck": "false"}),
        help_text=(
            "NAME=value, one on each line, for env and must_env. Others become inputs of each run, or keep "
            "their default."
        ),
    )
    approver_group = forms.CharField(
        required=False, max_length=256, help_text="User group that approves at WAIT_APPROVAL stages."
    )

    def __init__(self, *args: Any, person: Principal, scope: Scope | None, **kwargs: Any) -> None:
        super().__init__(*args, person=person, permission="core_service_edit", scope=scope, **kwargs)
        field = self.fields["connector"]
        if isinstance(field, forms.ChoiceField):
            field.choices = [("", "None"), *_list_connector_choices(person, self._find_scope(scope))]

    def _find_scope(self, scope: Scope | None) -> Scope | None:
        """Return the posted scope, if there is one."""
        path = self.data.get(self.add_prefix("in_scope")) if self.is_bound else None
        field = self.fields["in_scope"]
        rows = field.queryset if isinstance(field, ScopeField) and path else None
        return (rows.filter(path=path).first() if rows is not None else None) or scope

    def clean_values(self) -> dict[str, str]:
        """Return the environment variables by name."""
        values = {}
        for line in self.cleaned_data["values"].splitlines():
            name, separator, value = line.strip().partition("=")
            if line.strip() and not separator:
                raise ValidationError(f"{line.strip()[:100]} has no =")
            if name:
                values[name] = value
        return values

    def clean(self) -> dict[str, Any]:
        """Merge the uploaded files and the pasted ones."""
        data: dict[str, Any] = super().clean() or {}
        try:
            texts = parse_texts(data.get("texts") or "")
        except ValidationError as error:
            self.add_error("texts", error)
            return data
        uploads = data.get("uploads") or ()
        for name, count in Counter(file.name for file in uploads).items():
            if count > 1:
                self.add_error(
                    "uploads", f"{count} of the files are called {name}. Rename them, or paste them."
                )
        for file in uploads:
            try:
                texts[file.name] = file.read(int(IMPORT_BYTES) + 1).decode()
            except UnicodeDecodeError:
                self.add_error("uploads", f"{file.name} is not a text in UTF-8")
                continue
            # Beside the others in one text, a file would end there.
            if header := _HEADER.search(texts[file.name]):
                self.add_error(
                    "uploads", f"{file.name} has a line that begins a file here: {header[0][:60]}. Remove it."
                )
        if not texts and not self.errors:
            self.add_error("uploads", "Choose the files, or paste them.")
        data["texts"] = texts
        return data

    def add_problem(self, problem: Problem | ValidationError) -> None:
        """Show what is wrong in the files at their text, which has the uploaded ones too."""
        if not isinstance(problem, ImportRefused):
            super().add_problem(problem)
            return
        for error in problem.errors:
            self.add_error("texts", error["message"])

    def build_spec(self) -> ImportSpec:
        """Return the import; the form must be valid."""
        return ImportSpec.from_answers(self.cleaned_data["texts"], self.cleaned_data)

    def build_repeatable_data(self, posted: QueryDict) -> QueryDict:
        """Return the posted values with the uploaded files as text: a browser does not send them again."""
        values = posted.copy()
        values["texts"] = render_texts(self.cleaned_data["texts"])
        return values


def parse_texts(text: str) -> dict[str, str]:
    """Return files by name from a text in which each begins with a line === name.

    Raises `ValidationError` for other text before the first one, and for a name that is there twice.
    """
    text = text.replace("\r\n", "\n")
    before, *parts = _HEADER.split(text)
    names, contents = parts[::2], parts[1::2]
    if before.strip():
        raise ValidationError("Begin each file with a line === and its name.")
    if len(set(names)) < len(names):
        raise ValidationError("A name is there twice.")
    return {name: content.removeprefix("\n") for name, content in zip(names, contents, strict=True)}


def render_texts(texts: Mapping[str, str]) -> str:
    """Return one text with all files."""
    return "".join(f"=== {name}\n{content.rstrip()}\n" for name, content in texts.items())


def _list_connector_choices(person: Principal, scope: Scope | None) -> list[tuple[str, str]]:
    """Return references to the AWS connectors that the person may use, with their names."""
    if scope is None:
        return []
    rows = list_connectors(scope, Connector.Kind.AWS).select_related("scope")
    usable = filter_visible(person, "core_connector_access", rows).order_by("name")
    return [(f"{_LEVELS.get(row.scope.kind, '')}{row.identifier}", row.name) for row in usable]
