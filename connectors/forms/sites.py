"""The forms of connectors to Git servers and registries."""

from typing import Any

from django import forms

from connectors.aws_accounts import DELEGATE, SLIPWAY
from connectors.delegate_tags import tags_in
from connectors.forms.connectors import EDIT, SecretField, version_of
from connectors.forms.secrets import Unechoed
from connectors.models import Connector, Secret
from connectors.sites import ANONYMOUS, PASSWORD, SSH_KEY, read_site
from rbac.models import Scope
from rbac.policy import Principal, visible_to
from web.page_forms import PageForm, ScopeField, identifier_from

_MONO = {"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}
_WAYS = {
    Connector.Kind.GIT: [
        (ANONYMOUS, "Anonymous"),
        (PASSWORD, "User name and token"),
        (SSH_KEY, "SSH key"),
    ],
    Connector.Kind.DOCKER_REGISTRY: [(ANONYMOUS, "Anonymous"), (PASSWORD, "User name and password")],
}
_HINTS = {
    Connector.Kind.GIT: (
        "Such as https://github.com/team/app.git, ssh://git@example.com/team/app.git, or "
        "https://github.com/team for all repositories of an account.",
        "https://github.com/team/app.git",
        "Repository of the test",
        "Only for the URL of an account, such as app.git.",
    ),
    Connector.Kind.DOCKER_REGISTRY: (
        "Such as https://registry.hub.docker.com/v2/ for Docker Hub.",
        "https://registry.hub.docker.com/v2/",
        "Image path of the test",
        "Such as library/nginx. Empty: only the registry itself is asked.",
    ),
}


class SiteForm(PageForm):
    """Where a Git server or a registry is and how it is entered; `spec` gives it as a connector keeps it."""

    depending = frozenset({"username", "secret", "secret_value", "host_key", "test_repository"})

    name = forms.CharField(max_length=128, help_text="Such as “Team repositories”.")
    connect_through = forms.ChoiceField(
        label="Calls go out from",
        choices=[(SLIPWAY, "This Slipway"), (DELEGATE, "A delegate")],
        initial=SLIPWAY,
        required=False,
        widget=forms.RadioSelect,
    )
    delegate_selectors = forms.CharField(
        required=False,
        max_length=3000,
        label="Only delegates with all of these tags",
        help_text="With commas between them. Empty: any delegate that may work here.",
        widget=forms.TextInput(attrs={**_MONO, "placeholder": "prod, eu-central"}),
    )
    url = forms.CharField(max_length=500, label="URL", widget=forms.TextInput(attrs=_MONO))
    authentication = forms.ChoiceField(label="Authentication", widget=forms.RadioSelect)
    username = forms.CharField(
        required=False, max_length=255, label="User name", widget=forms.TextInput(attrs=_MONO)
    )
    secret = SecretField(
        queryset=Secret.objects.none(),
        required=False,
        empty_label="Choose a secret",
        label="Secret with the token, password or private key",
    )
    secret_value = forms.CharField(
        required=False,
        strip=True,
        max_length=65_536,
        label="Or the token, password or private key itself",
        help_text="It is kept encrypted as a new secret, and never shown again.",
        widget=Unechoed(
            attrs={
                "class": "input mono secret-value",
                "rows": 3,
                "autocomplete": "off",
                "spellcheck": "false",
            }
        ),
    )
    host_key = forms.CharField(
        required=False,
        max_length=10_000,
        label="Host keys of the server",
        help_text="What ssh-keyscan prints, one key a line. Empty: the key of the first connection is kept.",
        widget=forms.Textarea(attrs={**_MONO, "rows": 2, "placeholder": "ssh-ed25519 AAAA…"}),
    )
    test_repository = forms.CharField(required=False, max_length=255, widget=forms.TextInput(attrs=_MONO))

    def __init__(
        self, *args: Any, person: Principal, kind: str, connector: Connector | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, auto_id="connector-%s", initial=_initial(connector), **kwargs)
        self.kind = Connector.Kind(kind)
        usable = visible_to(person, "core_secret_access", Secret.objects.defer("value"))
        choice, ways = self.fields["secret"], self.fields["authentication"]
        if isinstance(choice, SecretField):
            choice.queryset = usable.select_related("scope").order_by("scope__path", "identifier")
        if isinstance(ways, forms.ChoiceField):
            ways.choices = _WAYS[self.kind]
        help_text, placeholder, label, about = _HINTS[self.kind]
        self.fields["url"].help_text = help_text
        self.fields["url"].widget.attrs["placeholder"] = placeholder
        self.fields["test_repository"].label, self.fields["test_repository"].help_text = label, about

    def spec(self) -> dict[str, Any]:
        """What the connector keeps: only what its way of entering asks for."""
        given = self.cleaned_data
        wanted = ["url", "authentication", "connect_through", "test_repository"]
        if given["authentication"] == PASSWORD:
            wanted.append("username")
        found = {name: given.get(name, "") for name in wanted}
        if given["authentication"] == SSH_KEY:
            found["host_key"] = given.get("host_key", "")
        if found["connect_through"] == DELEGATE:
            found["delegate_selectors"] = tags_in(given.get("delegate_selectors", ""))
        return {name: value for name, value in found.items() if value}

    @property
    def needs_secret(self) -> bool:
        """Whether a password, a token or a key takes part."""
        return read_site(self.spec()).needs_secret


class NewSiteForm(SiteForm):
    """A connector that is not there yet."""

    in_scope = ScopeField(help_text="Things in this scope and below it can use the connector.")
    identifier = forms.CharField(
        required=False,
        max_length=128,
        help_text="What manifests and pipelines call it; made from the name if empty.",
        widget=forms.TextInput(attrs=_MONO),
    )

    field_order = ("in_scope", "name", "identifier")

    def __init__(self, *args: Any, person: Principal, kind: str, scope: Scope | None, **kwargs: Any) -> None:
        super().__init__(*args, person=person, kind=kind, **kwargs)
        field = self.fields["in_scope"]
        if isinstance(field, ScopeField):
            field.offer(person, EDIT, scope)

    def clean_identifier(self) -> str:
        """The identifier, made from the name where none was given."""
        given = str(self.cleaned_data["identifier"])
        return given or identifier_from(str(self.cleaned_data.get("name", "")))


class EditSiteForm(SiteForm):
    """A connector that is there; `version` is the one that the person saw."""

    version = forms.CharField(max_length=32, widget=forms.HiddenInput)


def _initial(connector: Connector | None) -> dict[str, Any]:
    if connector is None:
        return {"connect_through": SLIPWAY, "authentication": ANONYMOUS}
    site = read_site(connector.spec)
    return {
        "name": connector.name,
        "connect_through": site.connect_through,
        "delegate_selectors": ", ".join(site.delegate_selectors),
        "url": site.url,
        "authentication": site.authentication,
        "username": site.username,
        "secret": connector.secret_id,
        "host_key": site.host_key,
        "test_repository": site.test_repository,
        "version": version_of(connector),
    }
