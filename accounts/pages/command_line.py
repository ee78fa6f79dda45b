"""Page that signs a command line in."""

from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.utils.decorators import method_decorator
from django.utils.functional import cached_property
from django.views.decorators.cache import never_cache

from accounts.command_line_codes import SignInRequest, issue_code, parse_request
from accounts.forms.api_keys import NewApiKeyForm
from accounts.pages.api_keys import ApiKeyFormPage
from guards.text import find_name_problem
from rbac.models import ApiKey
from web.forms.resource_pages import CreatePage

MAX_HOST_CHARACTERS = 64
_DEFAULT_DAYS = "90"


@method_decorator(never_cache, name="dispatch")
class CommandLineSignIn(ApiKeyFormPage, CreatePage[ApiKey]):
    """Approve a sign-in that `slipway login` asks for, and hand a one-time code to it."""

    noun = "API key"
    parents = (("My API keys", "my-api-keys"),)
    title = "Sign in the command line"
    here = "Command line"
    button = "Sign in"
    refusal_title = "Could not sign in"
    hint = (
        "Continue only if you have just started slipway login yourself. It gets an API key with your "
        "permissions."
    )

    def prepare(self) -> None:
        """Check the address. Raises `BadInput`."""
        self.sign_in_request  # noqa: B018 - computed here to refuse it early

    @cached_property
    def sign_in_request(self) -> SignInRequest:
        """Return the request in the address."""
        query = self.request.GET
        return parse_request(query.get("challenge", ""), query.get("state", ""), query.get("port", ""))

    def get_form_options(self) -> dict[str, Any]:
        host = self.request.GET.get("host", "")
        is_shown = host and find_name_problem(host, MAX_HOST_CHARACTERS) is None
        name = f"slipway on {host}" if is_shown else "slipway"
        number = self.request.user.api_keys.filter(name__startswith=name).count()
        initial = {"name": f"{name} ({number + 1})" if number else name, "expires": _DEFAULT_DAYS}
        return {"person": self.request.user, "initial": initial}

    def save(self, form: NewApiKeyForm) -> str:
        """Return the code. The key is created when the command line exchanges it."""
        fields = form.given
        if self.request.user.api_keys.filter(name=fields["name"]).exists():
            raise ValidationError(
                {"name": "You already have an API key with this name. Choose another name."}
            )
        return issue_code(self.request.user, self.sign_in_request, **fields)

    def finish(self, saved: str) -> HttpResponse:  # type: ignore[override]
        url = self.sign_in_request.return_url
        content = {
            "code": saved,
            "return_url": f"{url}&{urlencode({'code': saved})}" if url else "",
            "here": self.here,
        }
        return self.render(content, 200, "accounts/keys/command_line.html")
