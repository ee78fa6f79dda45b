"""Forms of Git syncs."""

from typing import Any, Final

from django import forms

from connectors.models import Connector
from gitsync.models import GitSyncHook
from gitsync.operations import GitSyncSpec
from gitsync.queries import list_git_connectors, list_usable_accounts
from pipelines.forms.triggers import NEW_ACCOUNT
from rbac.models import ServiceAccount, User
from web.forms.drafts import NewResource
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import IdentifierField, IdentifierForm, ScopedForm, VersionField

SPEC_FIELDS: Final = (
    "name", "connector", "repository", "branch", "folder", "service_account", "prunes", "edits_branch",
    "is_enabled",
)  # fmt: skip
_MONOSPACE: Final = {"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}


class ScopedChoiceField(forms.ModelChoiceField):
    """Choice of a row, shown with its scope."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.scope.path})"


class GitSyncForm(PageForm):
    """Fields of a Git sync."""

    name = forms.CharField(max_length=128)
    connector = ScopedChoiceField(Connector.objects.none(), help_text="A connector to Git.")
    repository = forms.CharField(
        required=False,
        max_length=255,
        widget=forms.TextInput(attrs=_MONOSPACE),
        help_text="Only if the connector URL is an account URL, such as team/app.git.",
    )
    branch = forms.CharField(
        max_length=255, initial="main", widget=forms.TextInput(attrs=_MONOSPACE), help_text="Such as main."
    )
    folder = forms.CharField(
        required=False,
        max_length=255,
        widget=forms.TextInput(attrs=_MONOSPACE),
        help_text="Such as deploy/slipway. All YAML files in it and below are read.",
    )
    service_account = ScopedChoiceField(
        ServiceAccount.objects.none(),
        help_text="Changes are made with its permissions, and under its name. Assign its roles on its page.",
    )
    prunes = forms.BooleanField(
        required=False,
        label="Delete resources whose document is removed",
        help_text="Otherwise they stay, marked as no longer in Git.",
    )
    edits_branch = forms.CharField(
        required=False,
        max_length=255,
        label="Commit edits in Slipway to branch",
        widget=forms.TextInput(attrs=_MONOSPACE),
        help_text="Empty: edits are refused. With a slash at the end, such as slipway/, each edit gets its "
        "own branch. The credentials of the connector must be allowed to push.",
    )
    is_enabled = forms.BooleanField(required=False, initial=True, label="Enabled")
    version = VersionField()

    pairs = (("branch", "folder"),)
    new_resources = {
        "connector": NewResource(
            "connector", "new-connector", "core_connector_edit", kinds=(Connector.Kind.GIT,)
        ),
        "service_account": NEW_ACCOUNT,
    }

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices: dict[str, Any] = {
            "connector": list_git_connectors(user),
            "service_account": list_usable_accounts(user),
        }
        for name, rows in choices.items():
            field: Any = self.fields[name]
            field.queryset = rows

    def build_spec(self) -> GitSyncSpec:
        """Return the entered fields."""
        return GitSyncSpec(**{name: self.cleaned_data[name] for name in SPEC_FIELDS})


class NewGitSyncForm(ScopedForm, IdentifierForm, GitSyncForm):
    """Form for a new Git sync."""

    in_scope = ScopeField(help_text="Documents that name no scope belong to it; others must be below it.")
    identifier = IdentifierField(
        help_text="Used in the API. It cannot be changed. Generated from the name if empty."
    )

    field_order = ("in_scope", "name", "identifier")


class HookForm(PageForm):
    """Provider of the pushes of a Git sync."""

    provider = forms.ChoiceField(
        choices=GitSyncHook.Provider.choices, help_text="Pushes are signed as this provider does it."
    )
