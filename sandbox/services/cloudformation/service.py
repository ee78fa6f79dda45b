"""CloudFormation API, one method per operation, in the query protocol."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from moto.core.parse import QueryParser
from moto.core.serialize import QuerySerializer
from moto.core.utils import get_service_model
from moto.iam.models import get_account_id_from
from werkzeug.datastructures import MultiDict

from sandbox.aws_protocol import AwsHttpResponse, AwsRequest, build_error_response
from sandbox.journal import mark_unchanged
from sandbox.services.cloudformation import documents, templates
from sandbox.services.cloudformation.internal_client import InternalClient
from sandbox.services.cloudformation.resource_handlers import is_known_type
from sandbox.services.cloudformation.stack_engine import INITIATED, StackEngine
from sandbox.services.cloudformation.stacks import CloudFormationStack, StackTarget
from sandbox.services.cloudformation.templates import (
    MAX_BODY_BYTES,
    CloudFormationError,
    ResourceFailed,
    StackTemplate,
    parse_template,
)

SERVICE_NAME = "cloudformation"


def parse_parameters(call: AwsRequest, body: bytes) -> dict[str, Any]:
    """Return the parameters of a request."""
    form = MultiDict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    model = get_service_model(SERVICE_NAME).operation_model(call.operation)
    parameters: dict[str, Any] = QueryParser(model).parse({"values": form})
    return parameters


def build_response(call: AwsRequest, result: dict[str, Any]) -> AwsHttpResponse:
    """Return the answer with this result."""
    model = get_service_model(SERVICE_NAME).operation_model(call.operation)
    serialized = QuerySerializer(operation_model=model).serialize(result)
    body = serialized["body"]
    return AwsHttpResponse(
        int(serialized["status_code"]),
        tuple(serialized["headers"].items()),
        body.encode() if isinstance(body, str) else bytes(body),
    )


def build_error(call: AwsRequest, refusal: CloudFormationError) -> AwsHttpResponse:
    """Return the answer of a refusal."""
    return build_error_response(call, 400, refusal.code, refusal.message)


NAME_PATTERN = r"[a-zA-Z][-a-zA-Z0-9]*"
UPDATABLE_STATUSES = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE")
NO_UPDATES_MESSAGE = "No updates are to be performed."
RequestParameters = Mapping[str, Any]


class CloudFormationService:
    """CloudFormation service with its stacks and operations."""

    def __init__(self, inside: InternalClient) -> None:
        self.stacks: list[CloudFormationStack] = []
        self._inside = inside
        self._machine = StackEngine(inside)
        self._operations: dict[str, Callable[[AwsRequest, RequestParameters], Any]] = {
            "CancelUpdateStack": self._cancel_update,
            "ContinueUpdateRollback": self._continue_rollback,
            "CreateStack": self._create_stack,
            "DeleteStack": self._delete_stack,
            "DescribeStackEvents": self._describe_events,
            "DescribeStackResources": self._describe_resources,
            "DescribeStacks": self._describe_stacks,
            "GetTemplate": self._get_template,
            "ListStackResources": self._list_resources,
            "ListStacks": self._list_summaries,
            "UpdateStack": self._update_stack,
            "ValidateTemplate": self._validate_template,
        }

    def respond(self, call: AwsRequest, body: bytes) -> AwsHttpResponse:
        """Return the response to one request."""
        operation = self._operations.get(call.operation)
        try:
            if operation is None:
                raise CloudFormationError(f"The sandbox does not know {call.operation}.", "InvalidAction")
            return build_response(call, operation(call, parse_parameters(call, body)))
        except CloudFormationError as no:
            return build_error(call, no)

    def tick(self) -> bool:
        """Advance all stacks, and return whether anything changed."""
        moved = [self._machine.tick(stack) for stack in self.stacks if stack.operation is not None]
        return any(moved)

    def _list_stacks(self, call: AwsRequest) -> list[CloudFormationStack]:
        account = get_account_id_from(call.access_key)
        return [stack for stack in self.stacks if (stack.account, stack.region) == (account, call.region)]

    def _find_stack(self, call: AwsRequest, reference: str) -> CloudFormationStack | None:
        """Return the stack: by id also a deleted one, by name only an existing one."""
        for stack in reversed(self._list_stacks(call)):
            if reference == stack.id or (reference == stack.name and not stack.is_deleted):
                return stack
        return None

    def _get_stack(self, call: AwsRequest, reference: str) -> CloudFormationStack:
        stack = self._find_stack(call, reference)
        if stack is None:
            raise CloudFormationError(f"Stack with id {reference} does not exist")
        return stack

    def _create_stack(self, call: AwsRequest, params: RequestParameters) -> Any:
        name = str(params.get("StackName", ""))
        if not re.fullmatch(NAME_PATTERN, name) or len(name) > 128:
            raise CloudFormationError(
                f"1 validation error detected: Value '{name}' at 'stackName' failed to satisfy constraint: "
                f"Member must satisfy regular expression pattern: {NAME_PATTERN}"
            )
        token = str(params.get("ClientRequestToken", ""))
        existing = self._find_stack(call, name)
        if existing is not None:
            if token and existing.tokens.get(token) == "CREATE":
                mark_unchanged()
                return {"StackId": existing.id}
            raise CloudFormationError(f"Stack [{name}] already exists", "AlreadyExistsException")
        template = self._parse_template(call, params)
        target = StackTarget(
            template,
            templates.resolve_parameters(template, params.get("Parameters") or ()),
            _read_tags(params),
        )
        self._check_capabilities(template, params)
        stack = CloudFormationStack(
            name,
            get_account_id_from(call.access_key),
            call.region,
            call.access_key,
            target,
            list(params.get("Capabilities") or ()),
            self._read_role(call, params),
            "DO_NOTHING" if params.get("DisableRollback") else str(params.get("OnFailure") or "ROLLBACK"),
        )
        self.stacks.append(stack)
        self._machine.begin(stack, "CREATE", token)
        return {"StackId": stack.id}

    def _update_stack(self, call: AwsRequest, params: RequestParameters) -> Any:
        name, token = str(params.get("StackName", "")), str(params.get("ClientRequestToken", ""))
        stack = self._find_stack(call, name)
        if stack is None or stack.is_deleted:
            raise CloudFormationError(f"Stack [{name}] does not exist")
        if token and token in stack.tokens:
            mark_unchanged()
            return {"StackId": stack.id}
        if stack.status not in UPDATABLE_STATUSES:
            raise CloudFormationError(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")
        is_same_text = bool(params.get("UsePreviousTemplate"))
        template = stack.target.template if is_same_text else self._parse_template(call, params)
        before = stack.target.parameters
        parameters = templates.resolve_parameters(template, params.get("Parameters") or (), before)
        self._check_capabilities(template, params)
        target = StackTarget(
            template, parameters, _read_tags(params) if "Tags" in params else stack.target.tags
        )
        if target.is_same(stack.target):
            raise CloudFormationError(NO_UPDATES_MESSAGE)
        stack.role = self._read_role(call, params) or stack.role
        stack.capabilities = list(params.get("Capabilities") or ())
        self._machine.begin(stack, "UPDATE", token, target)
        return {"StackId": stack.id}

    def _delete_stack(self, call: AwsRequest, params: RequestParameters) -> Any:
        name, token = str(params.get("StackName", "")), str(params.get("ClientRequestToken", ""))
        stack = self._find_stack(call, name)
        if stack is None or stack.is_deleted or stack.status == "DELETE_IN_PROGRESS":
            mark_unchanged()
            return {}
        if stack.status == "UPDATE_ROLLBACK_IN_PROGRESS":
            raise CloudFormationError(f"Stack [{name}] cannot be deleted while in status {stack.status}")
        stack.role = self._read_role(call, params) or stack.role
        self._machine.begin(stack, "DELETE", token)
        return {}

    def _cancel_update(self, call: AwsRequest, params: RequestParameters) -> Any:
        stack = self._get_stack(call, str(params.get("StackName", "")))
        if stack.status != "UPDATE_IN_PROGRESS":
            raise CloudFormationError("CancelUpdateStack cannot be called from current stack status")
        self._machine.roll_back(stack, INITIATED)
        return {}

    def _continue_rollback(self, call: AwsRequest, params: RequestParameters) -> Any:
        stack = self._get_stack(call, str(params.get("StackName", "")))
        if stack.status != "UPDATE_ROLLBACK_FAILED":
            raise CloudFormationError(
                f"Stack:{stack.id} is in {stack.status} state and can not continue an update rollback."
            )
        self._machine.begin(stack, "UPDATE_ROLLBACK", str(params.get("ClientRequestToken", "")))
        return {}

    def _describe_stacks(self, call: AwsRequest, params: RequestParameters) -> Any:
        reference = params.get("StackName")
        stacks = (
            [self._get_stack(call, reference)]
            if reference
            else [stack for stack in self._list_stacks(call) if not stack.is_deleted]
        )
        return documents.paginate([documents.build_stack(stack) for stack in stacks], params, "Stacks")

    def _describe_events(self, call: AwsRequest, params: RequestParameters) -> Any:
        stack = self._get_stack(call, str(params.get("StackName", "")))
        return documents.paginate(
            [documents.build_event(stack, event) for event in reversed(stack.events)], params, "StackEvents"
        )

    def _describe_resources(self, call: AwsRequest, params: RequestParameters) -> Any:
        stack = self._get_stack(call, str(params.get("StackName", "")))
        logical_id = params.get("LogicalResourceId")
        resources = [
            resource for resource in stack.resources.values() if logical_id in (None, resource.logical_id)
        ]
        return {"StackResources": [documents.build_resource(stack, resource) for resource in resources]}

    def _list_resources(self, call: AwsRequest, params: RequestParameters) -> Any:
        stack = self._get_stack(call, str(params.get("StackName", "")))
        summaries = [documents.build_resource_summary(resource) for resource in stack.resources.values()]
        return documents.paginate(summaries, params, "StackResourceSummaries")

    def _list_summaries(self, call: AwsRequest, params: RequestParameters) -> Any:
        statuses = params.get("StackStatusFilter")
        stacks = [stack for stack in self._list_stacks(call) if not statuses or stack.status in statuses]
        return documents.paginate(
            [documents.build_stack_summary(stack) for stack in stacks], params, "StackSummaries"
        )

    def _get_template(self, call: AwsRequest, params: RequestParameters) -> Any:
        stack = self._get_stack(call, str(params.get("StackName", "")))
        return {"TemplateBody": stack.target.template.text, "StagesAvailable": ["Original", "Processed"]}

    def _validate_template(self, call: AwsRequest, params: RequestParameters) -> Any:
        return documents.build_validation(self._parse_template(call, params))

    def _parse_template(self, call: AwsRequest, params: RequestParameters) -> StackTemplate:
        body, url = params.get("TemplateBody"), params.get("TemplateURL")
        if (body is None) == (url is None):
            raise CloudFormationError("Either Template URL or Template Body must be specified.")
        if body is not None and len(str(body).encode()) > MAX_BODY_BYTES:
            raise CloudFormationError(
                "1 validation error detected: Value at 'templateBody' failed to satisfy constraint: "
                f"Member must have length less than or equal to {MAX_BODY_BYTES}"
            )
        return parse_template(
            str(body) if body is not None else self._fetch_template(call, str(url)), is_known_type
        )

    def _fetch_template(self, call: AwsRequest, url: str) -> str:
        place = _parse_s3_url(url)
        if place is None:
            raise CloudFormationError("TemplateURL must be a supported URL.")
        bucket, key = place
        try:
            response = self._inside.call(
                call.access_key, call.region, "s3", "GetObject", {"Bucket": bucket, "Key": key}
            )
        except ResourceFailed as failed:
            text = "Access Denied" if "NoSuchKey" not in str(failed) else "The specified key does not exist."
            raise CloudFormationError(f"S3 error: {text}") from failed
        return bytes(response["Body"]).decode("utf-8", "replace")

    def _check_capabilities(self, template: StackTemplate, params: RequestParameters) -> None:
        agreed = set(params.get("Capabilities") or ())
        required = template.capabilities
        if required and not agreed & {*required, "CAPABILITY_NAMED_IAM"}:
            raise CloudFormationError(
                f"Requires capabilities : [{required[0]}]", "InsufficientCapabilitiesException"
            )

    def _read_role(self, call: AwsRequest, params: RequestParameters) -> str:
        arn = str(params.get("RoleARN") or "")
        if arn:
            try:
                name = arn.rpartition("/")[2]
                self._inside.call(call.access_key, call.region, "iam", "GetRole", {"RoleName": name})
            except ResourceFailed as failed:
                raise CloudFormationError(f"Role {arn} is invalid or cannot be assumed") from failed
        return arn


def _read_tags(params: RequestParameters) -> dict[str, str]:
    listed: Sequence[RequestParameters] = params.get("Tags") or ()
    return {str(tag["Key"]): str(tag["Value"]) for tag in listed}


def _parse_s3_url(url: str) -> tuple[str, str] | None:
    """Return bucket and key of an S3 URL, with the bucket in the host or in the path."""
    parts = urlsplit(url)
    host, path = parts.hostname or "", unquote(parts.path.lstrip("/"))
    if match := re.fullmatch(r"(.+)\.s3[.-](?:[\w-]+\.)?amazonaws\.com(?:\.cn)?", host):
        return (match[1], path) if path else None
    if re.fullmatch(r"s3[.-](?:[\w-]+\.)?amazonaws\.com", host) or host in ("127.0.0.1", "localhost"):
        bucket, _, key = path.partition("/")
        return (bucket, key) if key else None
    return None
