"""Operations of the install wizard: create a delegate, change its setup or token, get its files."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db import IntegrityError, transaction

from connectors.operations.identifiers import validate_name
from delegates.install import DelegateSpecFiles, InvalidSpec, SpecRequest, write_spec
from delegates.install.specs import find_new_name_problem
from delegates.install.wizard import SIZES, WizardAnswers, get_question_name
from delegates.live import publish_delegates_changed
from delegates.models import Delegate, DelegateConfiguration, DelegateToken
from delegates.operations.configuration_secrets import require_secret_access
from delegates.operations.delegates import clean_tags
from delegates.operations.specs import build_default_spec_request, render_spec, write_task_spec
from delegates.operations.tokens import create_token
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import can, require
from web.http.problems import BadInput, Conflict

INSTALL_PERMISSION = "core_delegate_edit"


def create_delegate(
    *,
    actor: User,
    scope: Scope,
    name: str,
    answers: WizardAnswers,
    size: str = "",
    tags: Sequence[str] = (),
    configuration: DelegateConfiguration | None = None,
    token: DelegateToken | None = None,
) -> Delegate:
    """Create a delegate that has never connected, and a token if none is given.

    Raises `BadInput` with the fields of `WizardAnswers` as paths, `MissingAccess` to a secret of the
    configuration, or `Conflict` if the scope has that name.
    """
    require(actor, INSTALL_PERMISSION, scope)
    chosen = configuration or DelegateConfiguration.objects.get(is_primary=True)
    _check_choices(actor, scope, size, chosen, token)
    if problem := find_new_name_problem(validate_name(name)):
        raise _build_refusal("name", problem)
    answers = answers.with_own_secret(validate_name(name)).with_own_role(validate_name(name))
    waits = chosen.requires_approval
    delegate = Delegate(
        scope=scope,
        name=validate_name(name),
        kind=answers.kind,
        flavour=answers.flavour,
        size=size,
        tags=clean_tags(tags),
        configuration=chosen,
        admission=Delegate.Admission.PENDING_APPROVAL if waits else Delegate.Admission.ENABLED,
        spec=answers.to_json(),
        aws_account=answers.aws_account_id,
        created_by=actor,
    )
    _check_spec(build_spec_request(delegate))
    try:
        with transaction.atomic():
            delegate.token = token or create_token(
                actor=actor, scope=scope, name=_find_free_token_name(scope, delegate)
            )
            delegate.save()
            record_audit_entry(
                actor=actor, action="delegate.create", thing=delegate, after=_build_audit_values(delegate)
            )
            publish_delegates_changed(delegate.pk)
    except IntegrityError as exc:
        message = _describe_taken_name(delegate.name)
        raise Conflict(message, errors=[{"path": "name", "message": message}]) from exc
    return delegate


def change_setup(*, actor: User, delegate: Delegate, answers: WizardAnswers, size: str = "") -> Delegate:
    """Change the answers that decide a delegate's files; what runs stays until they are deployed.

    Raises `BadInput` with the fields of `WizardAnswers` as paths, or `Conflict` for the built-in delegate.
    """
    require(actor, INSTALL_PERMISSION, delegate)
    if delegate.is_built_in:
        raise Conflict("The built-in delegate is part of Slipway and has no setup.")
    if size and size not in SIZES:
        raise _build_refusal("size", f"Unknown size. Use one of {', '.join(SIZES)}.")
    before = _build_audit_values(delegate)
    answers = answers.with_own_secret(delegate.name).with_own_role(delegate.name)
    delegate.aws_account = answers.aws_account_id or _get_observed_account(delegate)
    delegate.kind, delegate.flavour, delegate.size = answers.kind, answers.flavour, size
    delegate.spec = answers.to_json()
    _check_spec(build_spec_request(delegate))
    after = _build_audit_values(delegate)
    if after == before:
        return delegate
    with transaction.atomic():
        delegate.save(update_fields=["kind", "flavour", "size", "spec", "aws_account", "updated_at"])
        record_audit_entry(actor=actor, action="delegate.update", thing=delegate, before=before, after=after)
        publish_delegates_changed(delegate.pk)
    return delegate


def _get_observed_account(delegate: Delegate) -> str:
    """Return the account that a call of the delegate showed; empty if a user entered the account."""
    entered = delegate.spec.get("aws_account_id") if isinstance(delegate.spec, dict) else ""
    return "" if entered == delegate.aws_account else delegate.aws_account


def find_name_refusal(*, actor: User, scope: Scope | None, name: str) -> str:
    """Return why a new delegate of a scope cannot have a name, as `create_delegate` would; empty if it can.

    The names of a scope are compared only for actors who may create delegates there.
    """
    if problem := find_new_name_problem(name):
        return problem
    if scope is None or not can(actor, INSTALL_PERMISSION, scope):
        return ""
    is_taken = Delegate.objects.filter(scope=scope, name=name).exists()
    return _describe_taken_name(name) if is_taken else ""


def _describe_taken_name(name: str) -> str:
    return f"A delegate {name} already exists in this scope. Choose another name."


def get_setup(delegate: Delegate) -> WizardAnswers:
    """Return the stored answers; for a delegate that registered itself, those that its kind implies."""
    target = "FARGATE" if delegate.kind == Delegate.Kind.ECS else delegate.kind
    return WizardAnswers.from_json(delegate.spec or {"target": target, "flavour": delegate.flavour or "v3"})


def build_spec_request(delegate: Delegate) -> SpecRequest:
    """Return the spec request without a token."""
    answers = get_setup(delegate)
    flavour: Any = answers.flavour
    common = build_default_spec_request(flavour=flavour)
    tags = tuple(str(tag) for tag in delegate.tags)
    return answers.completed(common, name=delegate.name, tags=tags, size=delegate.size)


def get_installation(
    *, actor: User, delegate: Delegate, image: str = "", shows_token: bool = True
) -> tuple[DelegateSpecFiles, str]:
    """Return a delegate's installation files and the reason for a missing token, or an empty reason.

    Users with permission to edit delegates get the token, and the audit trail records the access; without
    `shows_token` its placeholder is in the files. `image` replaces the image of the answers, with their
    mirror. Raises `BadInput`.
    """
    request, token = build_spec_request(delegate), delegate.token
    if image:
        request = replace(request, image=image, mirrors_image=False)
    if not can(actor, INSTALL_PERMISSION, delegate):
        return render_spec(request), f"Ask someone with the permission {INSTALL_PERMISSION} for the token."
    if token is None or not token.is_usable:
        return render_spec(request), "Its token is revoked, expired or deleted: choose another token."
    if not shows_token:
        return render_spec(replace(request, hides_token=True)), _describe_hidden_token(request, token)
    return write_task_spec(actor=actor, scope=delegate.scope, token=token, request=request), ""


def _describe_hidden_token(request: SpecRequest, token: DelegateToken) -> str:
    """Return where the token of files is; empty if they do not need it."""
    if not request.uses_secret:
        return f"The token {token.name} is in the files that were saved when they were shown."
    if request.secret.kind == "EXISTING":
        return ""
    return f"The commands store the token {token.name} in the Secrets Manager secret {request.secret.name}."


def change_token(*, actor: User, delegate: Delegate, token: DelegateToken | None = None) -> DelegateToken:
    """Change the token in a delegate's spec to another or a new one; its sessions continue.

    Raises `BadInput` for a token that this delegate cannot use.
    """
    require(actor, INSTALL_PERMISSION, delegate)
    if token is not None:
        _check_token(actor, delegate.scope, token)
    before, scope = _build_audit_values(delegate), delegate.scope
    with transaction.atomic():
        chosen = token or create_token(actor=actor, scope=scope, name=_find_free_token_name(scope, delegate))
        delegate.token = chosen
        delegate.save(update_fields=["token", "updated_at"])
        record_audit_entry(
            actor=actor,
            action="delegate.update",
            thing=delegate,
            before=before,
            after=_build_audit_values(delegate),
        )
    return chosen


def _check_choices(
    actor: User,
    scope: Scope,
    size: str,
    configuration: DelegateConfiguration,
    token: DelegateToken | None,
) -> None:
    if size and size not in SIZES:
        raise _build_refusal("size", f"Unknown size. Use one of {', '.join(SIZES)}.")
    if configuration.scope.path not in scope.ancestor_paths():
        message = f"{configuration} is in {configuration.scope}. Use a configuration in {scope} or above."
        raise _build_refusal("configuration", message)
    require_secret_access(actor, configuration, path="configuration")
    if token is not None:
        _check_token(actor, scope, token)


def _check_token(actor: User, scope: Scope, token: DelegateToken) -> None:
    require(actor, INSTALL_PERMISSION, token)
    if token.scope_id != scope.pk:
        message = f"The token {token.name} is for delegates of {token.scope}; choose one of {scope}."
        raise _build_refusal("token", message)
    if not token.is_usable:
        raise _build_refusal(
            "token", f"The token {token.name} is revoked or has expired; choose another one."
        )


def _check_spec(request: SpecRequest) -> None:
    try:
        write_spec(request)
    except InvalidSpec as exc:
        errors = [
            {"path": get_question_name(".".join(map(str, fault.path))), "message": fault.display_message}
            for fault in exc.faults
        ]
        raise BadInput("The delegate is not valid.", errors=errors) from exc


def _find_free_token_name(scope: Scope, delegate: Delegate) -> str:
    """Return the delegate's name for its token, with a number where a token has it already."""
    names = set(DelegateToken.objects.filter(scope=scope).values_list("name", flat=True))
    stem, number, name = delegate.name[:120], 2, delegate.name
    while name in names:
        name, number = f"{stem} {number}", number + 1
    return name


def _build_refusal(path: str, message: str) -> BadInput:
    return BadInput(message, errors=[{"path": path, "message": message}])


def _build_audit_values(delegate: Delegate) -> dict[str, Any]:
    return {
        "name": delegate.name,
        "kind": delegate.kind,
        "flavour": delegate.flavour,
        "size": delegate.size,
        "tags": list(delegate.tags),
        "configuration": delegate.configuration.name if delegate.configuration else None,
        "token": str(delegate.token) if delegate.token else None,
        "admission": delegate.admission,
        "spec": dict(delegate.spec),
    }
