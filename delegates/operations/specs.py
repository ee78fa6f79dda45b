"""Writing a delegate's spec, with the token in it: a reveal, which the audit trail keeps."""

from dataclasses import replace

from django.conf import settings
from django.utils import timezone

from delegates.models.account import account_id
from delegates.models.token import DelegateToken
from delegates.operations.tokens import reveal_token
from delegates.specs import BadSpec, Spec, SpecRequest, write_spec
from delegates.specs.request import Flavour
from rbac.models import Scope, User
from rbac.policy import require
from web.problems import BadInput

EDIT = "core_delegate_edit"


def wanted_spec(*, flavour: Flavour = "v3", image: str = "") -> SpecRequest:
    """What every spec of this installation has in common, to be completed with `dataclasses.replace`."""
    return SpecRequest(
        account_id=account_id(),
        manager_url=settings.PUBLIC_URL,
        image=image or settings.DELEGATE_IMAGES.get(flavour, settings.DELEGATE_IMAGES["v3"]),
        flavour=flavour,
    )


def write_task_spec(*, actor: User, scope: Scope, token: DelegateToken | None, request: SpecRequest) -> Spec:
    """Make every file and command of a delegate of `scope`; a placeholder stands for a token that is None.

    Where the token is kept in a secret already it is not revealed. Raises `BadInput`.
    """
    require(actor, EDIT, token or scope)
    if token is not None:
        _check_usable(token)
    spec = written_spec(request)
    if token is None or (request.uses_secret and request.secret.kind == "EXISTING"):
        return spec
    # Only now: what is refused reveals nothing.
    shown_for = f"the spec of {request.name}" if request.name else "a spec"
    value = reveal_token(actor=actor, token=token, shown_for=shown_for)
    return written_spec(replace(request, token=value))


def written_spec(request: SpecRequest) -> Spec:
    """Make the files and commands of a request. Raises `BadInput` with what has to be changed in it."""
    try:
        return write_spec(request)
    except BadSpec as exc:
        raise BadInput("The input is not valid.", errors=[one.as_error() for one in exc.faults]) from exc


def _check_usable(token: DelegateToken) -> None:
    """Refuse a token that no agent could register with."""
    message = ""
    if token.status != DelegateToken.Status.ACTIVE:
        message = "is revoked; choose another token"
    elif token.expires_at and token.expires_at <= timezone.now():
        message = "has expired; choose another token"
    if message:
        raise BadInput("The token cannot be used.", errors=[{"path": "token_id", "message": message}])
