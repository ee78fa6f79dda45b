"""Route of a delegate's setup: the answers that decide its files and its deployment."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from aws.policies import POLICIES
from delegates.install.wizard import SIZES, WizardAnswers
from delegates.models import Delegate
from delegates.operations.installation import change_setup, get_setup
from guards.limits import DELEGATE_ANSWER_CHARACTERS
from web.api.parameters import IF_MATCH_PARAMETER
from web.api.views import BaseApiView, check_version, respond_with_etag
from web.http.problems import Conflict

VIEW: Final = "core_delegate_view"
TARGETS: Final = ("FARGATE", "EC2", "DOCKER", "COMPOSE", "KUBERNETES", "SHELL_SCRIPT")
SECRET_KINDS: Final = ("PLAINTEXT", "EXISTING", "CREATE")
NETWORK_MODES: Final = ("bridge", "host", "awsvpc")
PROXY_SCHEMES: Final = ("http", "https")
USES: Final = tuple(policy.identifier for policy in POLICIES)


class AnswerField(serializers.CharField):
    """Text of a setup, which the spec validates; empty for the documented value."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_blank=True, max_length=int(DELEGATE_ANSWER_CHARACTERS), **options)


class DelegateSetupDocument(serializers.Serializer[Any]):
    """Answers that decide the files of a delegate; empty where the documented value is used."""

    target = serializers.ChoiceField(TARGETS)
    flavour = serializers.ChoiceField(["legacy", "v3"])
    size = serializers.ChoiceField(["", *SIZES])
    image = AnswerField(help_text="Image that an upgrade moves to; empty for the image of this release.")
    mirrors_image = serializers.BooleanField(help_text="Whether tasks pull from the account's ECR registry.")
    region = AnswerField()
    aws_account_id = AnswerField()
    hostname = AnswerField()
    cluster = AnswerField()
    log_group = AnswerField()
    execution_role = AnswerField()
    task_role = AnswerField(help_text="Role that exists; empty for a new one, if the delegate has uses.")
    uses = serializers.ListField(
        child=serializers.ChoiceField(USES), help_text="Permissions that a new task role gets."
    )
    network_mode = serializers.ChoiceField(["", *NETWORK_MODES])
    subnets = serializers.ListField(child=AnswerField(), max_length=64)
    security_groups = serializers.ListField(child=AnswerField(), max_length=64)
    assign_public_ip = serializers.BooleanField()
    secret_kind = serializers.ChoiceField(SECRET_KINDS)
    secret_arn = AnswerField(help_text="ARN of an existing secret with the token.")
    secret_name = AnswerField(help_text="Name of a new secret for the token.")
    proxy_host = AnswerField()
    proxy_port = serializers.IntegerField(min_value=1, max_value=65_535)
    proxy_scheme = serializers.ChoiceField(PROXY_SCHEMES)
    proxy_user = AnswerField()
    proxy_secret = AnswerField(help_text="ARN of a secret with the password of the proxy's user; for ECS.")
    no_proxy = serializers.ListField(child=AnswerField(), max_length=100)
    ca_path = AnswerField()
    ca_host_path = AnswerField()
    ca_secret = AnswerField(help_text="ARN of a secret with certificates to trust, as PEM; for ECS.")


class DelegateSetupChange(DelegateSetupDocument):
    """Changed answers of a delegate; the others stay."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the fields of the document, none of which is required."""
        optional = super().get_fields()
        for field in optional.values():
            field.required = False
        return optional


UPGRADE_EXAMPLE = OpenApiExample(
    "Upgrade to another image and size",
    {"image": "registry.example.com/slipway-delegate:1.4.0", "size": "medium"},
    request_only=True,
)


class DelegateSetup(BaseApiView):
    """Setup of a delegate; what runs stays until a deployment or the new files are used."""

    @extend_schema(responses=DelegateSetupDocument)
    def get(self, request: Request, pk: int) -> Response:
        return _build_response(self.get_visible(VIEW, _list_rows(), pk=pk))

    @extend_schema(
        parameters=[IF_MATCH_PARAMETER],
        request=DelegateSetupChange,
        responses=DelegateSetupDocument,
        examples=[UPGRADE_EXAMPLE],
    )
    def patch(self, request: Request, pk: int) -> Response:
        body = self.get_validated_body(DelegateSetupChange)
        with transaction.atomic():
            delegate = self.get_visible(VIEW, _list_rows(), lock=True, pk=pk)
            check_version(request, _get_version(delegate))
            size = body.pop("size", delegate.size)
            answers = change_answers(_get_answers(delegate), body)
            changed = change_setup(actor=self.principal, delegate=delegate, answers=answers, size=size)
        return _build_response(changed)


def _list_rows() -> QuerySet[Delegate]:
    return Delegate.objects.select_related("scope", "token", "configuration")


def change_answers(answers: WizardAnswers, body: Mapping[str, Any]) -> WizardAnswers:
    """Return answers with those of a body in their place; other fields of the body are ignored."""
    names = {field.name for field in fields(WizardAnswers)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in body.items()
        if name in names
    }
    return replace(answers, **values)


def _get_answers(delegate: Delegate) -> WizardAnswers:
    """Return the answers with the names that a change would give them. Raises `Conflict`."""
    if delegate.is_built_in:
        raise Conflict("The built-in delegate is part of Slipway and has no setup.")
    return get_setup(delegate).with_own_secret(delegate.name).with_own_role(delegate.name)


def _build_response(delegate: Delegate) -> Response:
    answers = _get_answers(delegate).to_json() | {"size": delegate.size}
    return respond_with_etag(DelegateSetupDocument(answers).data, _get_version(delegate))


def _get_version(delegate: Delegate) -> str:
    return f"{delegate.updated_at.timestamp():.6f}"
