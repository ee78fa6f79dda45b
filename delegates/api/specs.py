"""Routes that write a delegate's spec and lint one."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from connectors.models import Connector
from delegates.api.connectors import validate_region
from delegates.api.setups import NETWORK_MODES, PROXY_SCHEMES, SECRET_KINDS, USES
from delegates.install import CaBundle, DelegateSpecFiles, SpecNetwork, SpecProxy, SpecRequest, TokenSecret
from delegates.install.generator import SCRIPT_FILE, build_zip, render_script
from delegates.install.plan import DEFAULT_REGION
from delegates.install.specs import EXECUTION_ROLE, INSTALL_GROUPS, KINDS, SECRET_NAME
from delegates.install.wizard import SIZES
from delegates.models import Delegate, DelegateToken
from delegates.operations.installation import get_installation
from delegates.operations.specs import build_default_spec_request, check_spec, write_task_spec
from guards.limits import DELEGATE_ANSWER_CHARACTERS, DELEGATE_TAGS, NAME_CHARACTERS
from web.api.views import BaseApiView

VIEW = "core_delegate_view"
FORMAT = OpenApiParameter(
    "format", OpenApiTypes.STR, enum=["json", "zip"], description="zip returns a ZIP file."
)


class AssignPublicIpField(serializers.BooleanField):
    """Boolean field that also accepts the values of AWS, ENABLED and DISABLED."""

    def to_internal_value(self, data: Any) -> bool:
        words = {"ENABLED": True, "DISABLED": False}
        return words[data] if isinstance(data, str) and data in words else super().to_internal_value(data)


class SpecTextField(serializers.CharField):
    """Text field whose characters the spec validates."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            **{
                "required": False,
                "allow_blank": True,
                "max_length": int(DELEGATE_ANSWER_CHARACTERS),
                **options,
            }
        )


class NetworkInput(serializers.Serializer[Any]):
    """Network settings of a delegate's tasks."""

    subnets = serializers.ListField(child=SpecTextField(), required=False, max_length=64)
    security_groups = serializers.ListField(child=SpecTextField(), required=False, max_length=64)
    assign_public_ip = AssignPublicIpField(required=False, default=True)
    mode = serializers.ChoiceField(NETWORK_MODES, required=False)


class TokenSecretInput(serializers.Serializer[Any]):
    """Source of the token in the container."""

    kind = serializers.ChoiceField(SECRET_KINDS)
    arn = SpecTextField(help_text="ARN of an existing secret.")
    name = SpecTextField(default=SECRET_NAME, help_text="Name of a secret to create.")


class ProxyInput(serializers.Serializer[Any]):
    """Proxy for all connections of a delegate."""

    host = serializers.CharField(max_length=255)
    port = serializers.IntegerField(default=3128)
    scheme = serializers.ChoiceField(PROXY_SCHEMES, default="http")
    user = SpecTextField()
    password = SpecTextField(trim_whitespace=False)
    no_proxy = serializers.ListField(child=SpecTextField(), required=False, max_length=100)


class CaInput(serializers.Serializer[Any]):
    """Trusted certificates in addition to the system's."""

    path = serializers.CharField(max_length=int(DELEGATE_ANSWER_CHARACTERS))
    host_path = SpecTextField()


class SpecInput(serializers.Serializer[Any]):
    """Settings of a new delegate; omitted settings have their documented defaults."""

    name = SpecTextField(max_length=int(NAME_CHARACTERS))
    kind = serializers.ChoiceField(KINDS, default="ECS")
    flavour = serializers.ChoiceField(["legacy", "v3"], default="v3")
    launch_type = serializers.ChoiceField(["EC2", "FARGATE"], default="FARGATE")
    token_id = serializers.IntegerField(required=False, allow_null=True, min_value=1)
    hostname = SpecTextField(help_text="Omitted with a warning where ECS does not support it.")
    tags = serializers.ListField(
        child=SpecTextField(max_length=int(NAME_CHARACTERS)), required=False, max_length=int(DELEGATE_TAGS)
    )
    network = NetworkInput(required=False)
    aws_account_id = SpecTextField()
    region = SpecTextField()
    secret = TokenSecretInput(required=False)
    proxy = ProxyInput(required=False, allow_null=True)
    proxy_secret = SpecTextField(help_text="ARN of a secret with the proxy's password; for ECS.")
    ca = CaInput(required=False, allow_null=True)
    ca_secret = SpecTextField(help_text="ARN of a secret with certificates to trust, as PEM; for ECS.")
    image = SpecTextField(max_length=500)
    mirrors_image = serializers.BooleanField(
        default=False, help_text="Adds commands that mirror the image to the account's ECR registry."
    )
    cluster = SpecTextField()
    service = SpecTextField()
    family = SpecTextField()
    log_group = SpecTextField()
    execution_role = SpecTextField(default=EXECUTION_ROLE, allow_blank=False)
    task_role = SpecTextField()
    task_role_exists = serializers.BooleanField(
        default=False, help_text="No command creates or changes the task role before the service."
    )
    uses = serializers.ListField(
        child=serializers.ChoiceField(USES),
        required=False,
        help_text="Permissions that the commands give the task role; by default the documented ones.",
    )
    size = serializers.ChoiceField(
        list(SIZES), required=False, help_text="Sets cpu, memory_mib and desired_count."
    )
    cpu = serializers.IntegerField(required=False, min_value=0, help_text="CPU units; 1024 are one vCPU.")
    memory_mib = serializers.IntegerField(required=False, min_value=0)
    desired_count = serializers.IntegerField(required=False)
    stop_seconds = serializers.IntegerField(
        required=False,
        min_value=0,
        help_text="Seconds from SIGTERM to SIGKILL, for the platform and the agent.",
    )
    own_names = serializers.BooleanField(
        default=False,
        help_text="Names service and family after the delegate, for several delegates in one cluster.",
    )
    org = serializers.CharField(required=False, help_text="Required for a specification without a token.")
    project = serializers.CharField(required=False, help_text="Required for a specification without a token.")


class SpecOfDelegateInput(serializers.Serializer[Any]):
    """Image of an existing delegate's spec; by default the image of the settings."""

    image = SpecTextField(max_length=500, default="")


class CommandDocument(serializers.Serializer[Any]):
    """Shell command."""

    title = serializers.CharField()
    command = serializers.CharField()


class SpecDocument(serializers.Serializer[Any]):
    """Files and commands of a delegate; `commands` create it, in order."""

    files = serializers.DictField(child=serializers.CharField())
    commands = CommandDocument(many=True)
    permissions = CommandDocument(many=True)
    upgrade = CommandDocument(many=True)
    diagnose = CommandDocument(many=True)
    warnings = serializers.ListField(child=serializers.CharField())


class LintInput(serializers.Serializer[Any]):
    """Task definition to check, and optionally its service definition."""

    task_definition = serializers.DictField()
    service = serializers.DictField(required=False, allow_null=True)
    connector_id = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        help_text="Connector for reading subnets and security groups from AWS; it must connect from Slipway.",
    )
    region = serializers.CharField(required=False, default=DEFAULT_REGION)


class FindingDocument(serializers.Serializer[Any]):
    """Problem in a specification; a warning does not prevent a delegate's start."""

    document = serializers.ChoiceField(["task definition", "service"])
    place = serializers.CharField()
    message = serializers.CharField()
    fix = serializers.CharField()
    is_warning = serializers.BooleanField()


class FindingList(serializers.Serializer[Any]):
    """All findings; `ok` means that no finding prevents the delegate's start."""

    ok = serializers.BooleanField()
    findings = FindingDocument(many=True)


class ZipRenderer(BaseRenderer):
    """Renderer of a spec as a ZIP download; errors stay problem documents."""

    media_type = "application/zip"
    format = "zip"
    charset = None

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        response = (renderer_context or {})["response"]
        if response.exception or not data:
            return json.dumps(data).encode()
        response["Content-Disposition"] = 'attachment; filename="delegate.zip"'
        return build_zip(data["files"] | {SCRIPT_FILE: data["script"]})


SPEC_EXAMPLE = OpenApiExample(
    "Delegate on Fargate",
    {
        "name": "blue",
        "launch_type": "FARGATE",
        "token_id": 3,
        "aws_account_id": "123456789012",
        "region": "eu-central-1",
        "network": {
            "subnets": ["subnet-0a1b2c3d4e5f60718", "subnet-0a1b2c3d4e5f60719"],
            "security_groups": ["sg-0a1b2c3d4e5f60718"],
            "assign_public_ip": False,
        },
        "size": "small",
    },
    request_only=True,
)


class TaskSpec(BaseApiView):
    """Spec of a delegate before its creation."""

    renderer_classes = [JSONRenderer, ZipRenderer]

    @extend_schema(
        parameters=[FORMAT],
        request=SpecInput,
        responses={(200, "application/json"): SpecDocument, (200, "application/zip"): OpenApiTypes.BINARY},
        examples=[SPEC_EXAMPLE],
    )
    def post(self, request: Request) -> Response:
        body = self.get_validated_body(SpecInput)
        token = self._find_token(body.pop("token_id", None))
        scope = token.scope if token else self.get_named_scope()
        spec = write_task_spec(
            actor=self.principal, scope=scope, token=token, request=_build_spec_request(body)
        )
        return _build_response(self.request, spec)

    def _find_token(self, pk: int | None) -> DelegateToken | None:
        if pk is None:
            return None
        return self.get_visible(VIEW, DelegateToken.objects.select_related("scope"), pk=pk)


class DelegateSpec(BaseApiView):
    """Spec of an existing delegate, unchanged or with another image for an upgrade."""

    renderer_classes = [JSONRenderer, ZipRenderer]

    @extend_schema(
        operation_id="delegates_own_task_spec_create",
        parameters=[FORMAT],
        request=SpecOfDelegateInput,
        responses={(200, "application/json"): SpecDocument, (200, "application/zip"): OpenApiTypes.BINARY},
    )
    def post(self, request: Request, pk: int) -> Response:
        rows = Delegate.objects.filter(is_built_in=False).select_related("scope", "token__scope")
        delegate = self.get_visible(VIEW, rows, pk=pk)
        image = self.get_validated_body(SpecOfDelegateInput)["image"]
        spec, missing = get_installation(actor=self.principal, delegate=delegate, image=image)
        return _build_response(self.request, spec, *([missing] if missing else []))


class TaskSpecCheck(BaseApiView):
    """Problems of a delegate's task definition."""

    @extend_schema(request=LintInput, responses=FindingList)
    def post(self, request: Request) -> Response:
        body = self.get_validated_body(LintInput)
        pk = body.get("connector_id")
        rows = Connector.objects.select_related("scope", "secret")
        findings = check_spec(
            actor=self.principal,
            task_definition=body["task_definition"],
            service=body.get("service"),
            connector=self.get_visible("core_connector_view", rows, pk=pk) if pk else None,
            region=validate_region(body["region"]),
        )
        is_ok = all(finding.is_warning for finding in findings)
        return Response({"ok": is_ok, "findings": [finding.as_record() for finding in findings]})


def _build_spec_request(body: Mapping[str, Any]) -> SpecRequest:
    """Return the spec request of an input: lists become tuples, objects become dataclasses."""
    names = {field.name for field in fields(SpecRequest)} - {"image", "flavour"}
    plain: dict[str, Any] = {name: value for name, value in body.items() if name in names}
    parts = {"network": SpecNetwork, "secret": TokenSecret, "proxy": SpecProxy, "ca": CaBundle}
    for name, part in parts.items():
        if plain.get(name) is not None:
            plain[name] = part(**{key: _freeze(value) for key, value in plain[name].items()})
    if size := SIZES.get(body.get("size", "")):
        plain = {
            "cpu": size.instance_cpu,
            "memory_mib": size.instance_memory_mib,
            "desired_count": size.instances,
            **plain,
        }
    values = {name: _freeze(value) for name, value in plain.items()}
    return replace(build_default_spec_request(flavour=body["flavour"], image=body.get("image", "")), **values)


def _freeze(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _build_response(request: Request, spec: DelegateSpecFiles, *further: str) -> Response:
    """Return a spec as a document or as the source of a ZIP file; it may contain a token."""
    document = _serialize_spec(spec)
    document["warnings"] = [*further, *document["warnings"]]
    if isinstance(request.accepted_renderer, ZipRenderer):
        document["script"] = render_script(spec.list_commands(*INSTALL_GROUPS))
    return Response(document, headers={"Cache-Control": "no-store"})


def _serialize_spec(spec: DelegateSpecFiles) -> dict[str, Any]:
    return {
        "files": dict(spec.files),
        "commands": [command.as_record() for command in spec.list_commands(*INSTALL_GROUPS)],
        "permissions": [permission.as_record() for permission in spec.list_commands("permissions")],
        "upgrade": [command.as_record() for command in spec.list_commands("update")],
        "diagnose": [command.as_record() for command in spec.list_commands("diagnose")],
        "warnings": list(spec.warnings),
    }
