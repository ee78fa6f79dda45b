"""CloudFormation steps: create or update a stack, delete it, roll it back (R185, R187)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from connectors.secret_expressions import find_secret_references
from guards.limits import STACK_PARAMETERS, STACK_TAGS
from steps.actions.cloudformation import (
    ApplyStack,
    DeleteFailedStack,
    DeleteStack,
    FetchStackTemplate,
    SaveStack,
    WaitForStack,
)
from steps.actions.cloudformation.changes import STACK_TEMPLATE
from steps.expressions import format_value, has_expression
from steps.kinds.registry import BadStepError, Plan, SpecColumn, describe_field, step, unit
from steps.variables import SECRET_TYPE, TEXT_TYPE

CAPABILITIES = ("CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND")
ACCEPTED_STATUSES = (
    "CREATE_FAILED",
    "ROLLBACK_COMPLETE",
    "ROLLBACK_FAILED",
    "UPDATE_FAILED",
    "UPDATE_ROLLBACK_COMPLETE",
)
_STACK_NAME: Final = re.compile(r"[a-zA-Z][-a-zA-Z0-9]{0,127}\Z")
_ROLE_ARN: Final = re.compile(r"arn:aws[\w-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}\Z")
_REGION: Final = re.compile(r"[a-z]{2}(-[a-z]+){1,3}-\d\Z")
_PARAMETER_NAME: Final = re.compile(r"[A-Za-z0-9]{1,255}\Z")
STARTER_TEMPLATE: Final = """\
AWSTemplateFormatVersion: "2010-09-09"
Description: An ECS cluster to deploy to
Parameters:
  ClusterName:
    Type: String
Resources:
  ECSCluster:
    Type: AWS::ECS::Cluster
    Properties:
      ClusterName: !Ref ClusterName
Outputs:
  region_name:
    Value: !Ref AWS::Region
  cluster_name:
    Value: !Ref ECSCluster
"""


@dataclass(frozen=True)
class CreateStackSpec:
    """Settings of a stack: template (in a store, or at an S3 URL that AWS reads), parameters and tags."""

    stackName: str = field(
        metadata=describe_field("Letters, digits and dashes; expressions may stand in it.")
    )
    templateFile: dict[str, Any] = field(
        default_factory=dict, metadata=describe_field("The template: a store, and where it lies there.")
    )
    templateUrl: str = field(
        default="",
        metadata=describe_field(
            "Instead of templateFile: the URL of an object in S3, which CloudFormation reads."
        ),
    )
    parameters: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=describe_field(
            "For the type Secret, enter its identifier, such as account.db_password.",
            columns=(
                SpecColumn("name", is_needed=True),
                SpecColumn("type", "choice", choices=(TEXT_TYPE, SECRET_TYPE), default=TEXT_TYPE),
                SpecColumn("value"),
            ),
        ),
    )
    region: str = field(
        default="", metadata=describe_field("Such as us-east-1; without it that of the infrastructure.")
    )
    capabilities: list[str] = field(
        default_factory=list,
        metadata=describe_field(f"What you agree to: {', '.join(CAPABILITIES)}."),
    )
    roleArn: str = field(
        default="", metadata=describe_field("The role that CloudFormation takes on; without it your own.")
    )
    tags: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=describe_field(
            "Of the stack; its resources get them too.",
            columns=(SpecColumn("name", is_needed=True), SpecColumn("value")),
        ),
    )
    onlyExpected: bool = field(
        default=False,
        metadata=describe_field("Refuses to update a stack that is not among expected.", is_rare=True),
    )
    expected: list[str] = field(
        default_factory=list,
        metadata=describe_field("With onlyExpected: ARNs of stacks that may be updated.", is_rare=True),
    )
    skipOnStackStatuses: list[str] = field(
        default_factory=list,
        metadata=describe_field(
            "The step goes on after a failure that leaves the stack in one of these states.", is_rare=True
        ),
    )
    provisionerIdentifier: str = field(
        default="",
        metadata=describe_field("A name by which a rollback step can mean this step.", is_rare=True),
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid spec."""
        if problem := next(self._list_problems(), ""):
            raise BadStepError(f"CreateStack: {problem}")

    def _list_problems(self) -> Iterator[str]:
        yield from _list_stack_problems(self.stackName, self.region, self.roleArn)
        if bool(self.templateFile) == bool(self.templateUrl):
            yield "it needs either templateFile or templateUrl under spec"
        if self.templateUrl and (problem := _describe_url_problem(self.templateUrl)):
            yield problem
        yield from _list_entry_problems(
            self.parameters, "parameter", int(STACK_PARAMETERS), ("name", "type", "value")
        )
        yield from (
            f"parameter {entry['name']}: a name has letters and digits only"
            for entry in self.parameters
            if isinstance(entry, Mapping) and not _PARAMETER_NAME.match(str(entry.get("name", "")))
        )
        yield from _list_entry_problems(self.tags, "tag", int(STACK_TAGS), ("name", "value"))
        for name, allowed in (("capabilities", CAPABILITIES), ("skipOnStackStatuses", ACCEPTED_STATUSES)):
            if unknown := [entry for entry in getattr(self, name) if entry not in allowed]:
                yield f"{name}: {unknown[0]!r} is none of {', '.join(allowed)}"
        if not all(isinstance(entry, str) for entry in self.expected):
            yield "expected is a list of texts"

    @property
    def secret_references(self) -> tuple[str, ...]:
        """Return the secrets that the stack receives."""
        own = [
            str(parameter.get("value", ""))
            for parameter in self.parameters
            if parameter.get("type") == SECRET_TYPE
        ]
        references = find_secret_references(
            *(str(parameter.get("value", "")) for parameter in self.parameters)
        )
        return tuple(dict.fromkeys([*own, *references]))


@dataclass(frozen=True)
class DeleteStackSpec:
    """The stack to delete."""

    stackName: str = field(metadata=describe_field("The stack; all that it made is deleted with it."))
    region: str = field(
        default="", metadata=describe_field("Such as us-east-1; without it that of the infrastructure.")
    )
    roleArn: str = field(
        default="",
        metadata=describe_field("The role that CloudFormation takes on; without it the one it has."),
    )
    onlyWithTags: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=describe_field(
            "A stack without one of these tags is another one, and stays.",
            columns=(SpecColumn("name", is_needed=True), SpecColumn("value")),
            is_rare=True,
        ),
    )
    expected: list[str] = field(
        default_factory=list,
        metadata=describe_field("ARNs of stacks; another one with this name stays.", is_rare=True),
    )
    provisionerIdentifier: str = field(
        default="",
        metadata=describe_field(
            "Under rollbackSteps: only what has this name; without it all stacks.", is_rare=True
        ),
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid spec."""
        if problem := next(self._list_problems(), ""):
            raise BadStepError(f"DeleteStack: {problem}")

    def _list_problems(self) -> Iterator[str]:
        yield from _list_stack_problems(self.stackName, self.region, self.roleArn)
        yield from _list_entry_problems(self.onlyWithTags, "tag", int(STACK_TAGS), ("name", "value"))
        if not all(isinstance(entry, str) for entry in self.expected):
            yield "expected is a list of texts"


@dataclass(frozen=True)
class RollbackStackSpec:
    """Settings of the rollback of the stage's CreateStack steps."""

    provisionerIdentifier: str = field(
        default="",
        metadata=describe_field(
            "Under rollbackSteps: only what has this name; without it all stacks.", is_rare=True
        ),
    )


def _list_stack_problems(name: str, region: str, role: str) -> Iterator[str]:
    if not has_expression(name) and not _STACK_NAME.match(name):
        yield f"stackName {name[:60]!r}: a letter, then letters, digits and dashes, 128 in all"
    if region and not has_expression(region) and not _REGION.match(region):
        yield f"region {region[:60]!r} is not the name of a region, such as us-east-1"
    if role and not has_expression(role) and not _ROLE_ARN.match(role):
        yield "roleArn is the ARN of an IAM role, such as arn:aws:iam::123456789012:role/deployer"


def _describe_url_problem(url: str) -> str:
    if has_expression(url):
        return ""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme == "https" and bool(parts.hostname) and len(url) <= 5120
    except ValueError:
        is_valid = False
    return "" if is_valid else "templateUrl is an https URL of an object in S3"


def _list_entry_problems(entries: list[Any], noun: str, maximum: int, keys: tuple[str, ...]) -> Iterator[str]:
    if len(entries) > maximum:
        yield f"there are {len(entries)} {noun}s; CloudFormation takes {maximum}"
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry, Mapping) or not set(entry) <= set(keys) or not entry.get("name"):
            yield f"{noun} {number} has {', '.join(keys)}"
        elif not isinstance(entry.get("value", ""), str | int | float | bool):
            yield f"{noun} {entry['name']}: value is a text, a number, true or false"
        elif entry.get("type", TEXT_TYPE) not in (TEXT_TYPE, SECRET_TYPE):
            yield f"{noun} {entry['name']}: type is {TEXT_TYPE} or {SECRET_TYPE}"
    names = [entry.get("name") for entry in entries if isinstance(entry, Mapping)]
    if duplicate := next((name for name in names if names.count(name) > 1), ""):
        yield f"{noun} {duplicate} is there twice"


_OUTPUTS = {
    "stackName": "The name of the stack.",
    "stackId": "The ARN of the stack.",
    "stackRegion": "The region that the stack is in.",
    "stackChange": "CREATE, UPDATE or NONE.",
    "stackStatus": "How the stack stands.",
    "stackRestored": "Whether a rollback found the stack as it was before.",
    "stackRollbackContinued": "Whether a rollback continued the one that AWS could not finish.",
}


@step(
    "CreateStack",
    title="CloudFormation Create Stack",
    spec=CreateStackSpec,
    outputs=_OUTPUTS,
    undone_by="RollbackStack",
    timeout_minutes=30,
    manifests={"templateFile": STACK_TEMPLATE},
    scripts=("parameters", "tags"),
    secrets=("parameters.*.value",),
    starter={
        "stackName": "my-stack",
        "templateFile": {"type": "Inline", "spec": {"content": STARTER_TEMPLATE}},
        "parameters": [{"name": "ClusterName", "type": TEXT_TYPE, "value": "my-cluster"}],
    },
    provisions=True,
    sends_secrets_to_aws=True,
)
def create_stack(spec: CreateStackSpec) -> Plan:
    """Create the stack, or update it where it is there, and hand on its outputs."""
    name = spec.stackName
    yield unit("Fetch template", FetchStackTemplate(spec.templateUrl))
    yield unit(
        "Prepare rollback data",
        WaitForStack(name),
        SaveStack(name, spec.onlyExpected, list(spec.expected)),
        DeleteFailedStack(name),
    )
    yield unit(
        "Create or update stack",
        ApplyStack(
            name,
            spec.templateUrl,
            [
                [str(entry["name"]), str(entry.get("type", TEXT_TYPE)), format_value(entry.get("value", ""))]
                for entry in spec.parameters
            ],
            list(spec.capabilities),
            [[str(entry["name"]), TEXT_TYPE, format_value(entry.get("value", ""))] for entry in spec.tags],
            spec.roleArn,
            list(spec.skipOnStackStatuses),
        ),
    )


@step(
    "DeleteStack",
    title="CloudFormation Delete Stack",
    spec=DeleteStackSpec,
    outputs={"stackName": "The stack that was deleted.", "stackId": "The ARN that it had."},
    undoes=("CreateStack",),
    goes_forward=True,
    timeout_minutes=30,
    starter={"stackName": "my-stack"},
)
def delete_stack(spec: DeleteStackSpec) -> Plan:
    """Delete the stack and all that it made, once it is at rest; under rollbackSteps as RollbackStack."""
    yield unit(
        "Delete stack",
        WaitForStack(spec.stackName),
        DeleteStack(
            spec.stackName,
            spec.roleArn,
            [[str(entry["name"]), format_value(entry.get("value", ""))] for entry in spec.onlyWithTags],
            list(spec.expected),
        ),
    )


@step(
    "RollbackStack",
    title="CloudFormation Rollback Stack",
    spec=RollbackStackSpec,
    undoes=("CreateStack",),
    timeout_minutes=30,
)
def rollback_stack(_spec: RollbackStackSpec) -> Plan:
    """Restore the previous template and parameters of stacks, or delete the stacks that the run created."""
    yield from ()
