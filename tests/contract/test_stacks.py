"""What CloudFormation does with stacks, and what it refuses."""

from typing import Any
from uuid import uuid4

import pytest

from tests.contract.endpoint import Aws
from tests.contract.test_refusals import get_refusal

pytestmark = pytest.mark.needs_sandbox("stacks are made by its clock")
NOTHING = "{Type: AWS::CloudFormation::WaitConditionHandle}"
TEMPLATE = f"""\
Parameters: {{Days: {{Type: Number, Default: 7}}, Key: {{Type: String, NoEcho: true, Default: hidden}}}}
Conditions: {{IsLong: !Equals [!Ref Days, "30"]}}
Resources:
  First: {NOTHING}
  Logs: {{Type: AWS::Logs::LogGroup, DependsOn: First, Properties: {{RetentionInDays: !Ref Days}}}}
  Only: {{Type: AWS::CloudFormation::WaitConditionHandle, Condition: IsLong}}
Outputs:
  name: {{Value: !Ref Logs}}
  joined: {{Value: !Join ["-", [!Ref Days, !If [IsLong, long, short], !Select [1, !Split [",", "a,b"]]]]}}
"""


def create_stack(aws: Aws, template: str = TEMPLATE, **more: Any) -> str:
    """A stack that was made, by id."""
    response = aws.client("cloudformation").create_stack(
        StackName=f"s{uuid4().hex[:12]}", TemplateBody=template, **more
    )
    aws.advance(60)
    return str(response["StackId"])


def describe_stack(aws: Aws, stack: str) -> dict[str, Any]:
    """A stack as it is."""
    description: dict[str, Any] = aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
    return description


def statuses(aws: Aws, stack: str) -> list[str]:
    """Return the statuses of the stack itself, oldest first."""
    events = aws.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
    return [event["ResourceStatus"] for event in reversed(events) if event["PhysicalResourceId"] == stack]


@pytest.mark.source("CloudFormation User Guide, Intrinsic function reference; NoEcho")
def test_functions_conditions_and_hidden_parameters(aws: Aws) -> None:
    stack = describe_stack(aws, create_stack(aws))
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    assert outputs["joined"] == "7-short-b"
    assert outputs["name"].startswith(f"{stack['StackName']}-Logs-")
    parameters = {parameter["ParameterKey"]: parameter["ParameterValue"] for parameter in stack["Parameters"]}
    assert parameters == {"Days": "7", "Key": "****"}
    resources = aws.client("cloudformation").describe_stack_resources(StackName=stack["StackId"])[
        "StackResources"
    ]
    assert {resource["LogicalResourceId"] for resource in resources} == {"First", "Logs"}


@pytest.mark.source("CloudFormation API, DescribeStackEvents: ClientRequestToken")
def test_the_events_of_an_operation_bear_its_token_newest_first(aws: Aws) -> None:
    stack = create_stack(aws, ClientRequestToken="mine")
    events = aws.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
    assert {event["ClientRequestToken"] for event in events} == {"mine"}
    assert [event["ResourceStatus"] for event in events][0] == "CREATE_COMPLETE"
    assert events[-1]["ResourceStatusReason"] == "User Initiated"


@pytest.mark.source("CloudFormation User Guide, Stack status codes")
def test_a_failed_creation_and_a_failed_update_go_back(aws: Aws) -> None:
    broken = TEMPLATE.replace("  Only:", f"  FailsAtOnce: {NOTHING}\n  Only:")
    stack = create_stack(aws, broken)
    assert statuses(aws, stack) == ["CREATE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS", "ROLLBACK_COMPLETE"]
    code, message = get_refusal(
        lambda: aws.client("cloudformation").update_stack(StackName=stack, TemplateBody=TEMPLATE)
    )
    assert (code, message) == (
        "ValidationError",
        f"Stack:{stack} is in ROLLBACK_COMPLETE state and can not be updated.",
    )
    other = create_stack(aws)
    aws.client("cloudformation").update_stack(StackName=other, TemplateBody=broken)
    aws.advance(60)
    assert statuses(aws, other)[2:] == [
        "UPDATE_IN_PROGRESS",
        "UPDATE_ROLLBACK_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE",
    ]


@pytest.mark.source("CloudFormation API, UpdateStack and DeleteStack")
def test_updates_replacements_and_deletions(aws: Aws) -> None:
    stack = create_stack(aws)
    code, message = get_refusal(
        lambda: aws.client("cloudformation").update_stack(StackName=stack, TemplateBody=TEMPLATE)
    )
    assert (code, message) == ("ValidationError", "No updates are to be performed.")
    name = describe_stack(aws, stack)["StackName"]
    days = [{"ParameterKey": "Days", "ParameterValue": "30"}]
    aws.client("cloudformation").update_stack(StackName=name, UsePreviousTemplate=True, Parameters=days)
    aws.advance(60)
    resources = aws.client("cloudformation").describe_stack_resources(StackName=name)["StackResources"]
    assert {resource["LogicalResourceId"] for resource in resources} == {"First", "Logs", "Only"}
    aws.client("cloudformation").delete_stack(StackName=name)
    aws.advance(60)
    assert describe_stack(aws, stack)["StackStatus"] == "DELETE_COMPLETE"
    code, message = get_refusal(lambda: aws.client("cloudformation").describe_stacks(StackName=name))
    assert (code, message) == ("ValidationError", f"Stack with id {name} does not exist")
    aws.client("cloudformation").delete_stack(StackName=name)


@pytest.mark.source("CloudFormation User Guide, Template anatomy; CreateStack, errors")
@pytest.mark.parametrize(
    ("template", "more", "words"),
    [
        ("a: [", {}, "Template format error: YAML not well-formed"),
        ("Resources: {}", {}, "At least one Resources member must be defined."),
        ("Resources: {A: {Type: AWS::Moon::Base}}", {}, "Unrecognized resource types: [AWS::Moon::Base]"),
        (f"Resources: {{A: {NOTHING}}}\nOutputs: {{o: {{Value: !Ref B}}}}", {}, "dependencies [B]"),
        (f"Resources: {{A: {NOTHING}}}\nParameters: {{P: {{Type: String}}}}", {}, "[P] must have values"),
        (TEMPLATE, {"Parameters": [{"ParameterKey": "X", "ParameterValue": "1"}]}, "[X] do not exist in"),
        (TEMPLATE, {"Parameters": [{"ParameterKey": "Days", "ParameterValue": "x"}]}, "must be a number"),
        ("Resources: {A: {Type: AWS::IAM::Role}}", {}, "Requires capabilities : [CAPABILITY_IAM]"),
        (TEMPLATE + "#" * 51_200, {}, "less than or equal to 51200"),
    ],
)
def test_a_template_that_makes_no_sense_is_refused(
    aws: Aws, template: str, more: dict[str, Any], words: str
) -> None:
    code, message = get_refusal(
        lambda: aws.client("cloudformation").create_stack(StackName="never", TemplateBody=template, **more)
    )
    assert code in ("ValidationError", "InsufficientCapabilitiesException")
    assert words in message
