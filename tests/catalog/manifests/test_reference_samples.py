"""Every sample manifest of the reference: accepted, or refused with file, line, column and what to do."""

from pathlib import Path

import pytest

from catalog.manifests.checks import CheckedManifest, check_manifest
from catalog.manifests.documents import BadDocument, parse_document
from catalog.manifests.kinds import (
    RUN_TASK_REQUEST,
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
)

SAMPLES = Path(__file__).parent / "reference"
# What a reader puts in place of the placeholders; an account has twelve digits.
FILLED = {
    "<Role ARN>": "arn:aws:iam::123456789012:role/ecsInstanceRole",
    "<ecsInstanceRole Role ARN>": "arn:aws:iam::123456789012:role/ecsInstanceRole",
    "<Security Group Id>": "sg-0123456789abcdef0",
    "<Subnet Id>": "subnet-0123456789abcdef0",
    "<SUBNET>": "subnet-0123456789abcdef0",
    "SEC_GROUP": "sg-0123456789abcdef0",
    "<SERVICE_NAME>": "delegate",
    "<DELEGATE_HOST>": "delegate",
    "<DELEGATE_NAME>": "delegate",
    "PUT_YOUR_AWS_ACCOUNT_ID": "123456789012",
    "PUT_YOUR_SUBNET_ID": "subnet-0123456789abcdef0",
    "PUT_YOUR_SECURITY_GROUP_ID": "sg-0123456789abcdef0",
}
Refusals = list[tuple[int, int, str, str]]
ROLES: Refusals = [
    (
        2,
        1,
        "executionRoleArn",
        "still holds the placeholder <ecsInstanceRole Role ARN>; enter the real value",
    ),
    (46, 1, "taskRoleArn", "still holds the placeholder <ecsInstanceRole Role ARN>; enter the real value"),
]


def list_network_refusals(group: tuple[int, int], subnet: tuple[int, int]) -> Refusals:
    configuration_path = "networkConfiguration.awsvpcConfiguration"
    return [
        (
            *group,
            f"{configuration_path}.securityGroups[0]",
            "still holds the placeholder <Security Group Id>",
        ),
        (*subnet, f"{configuration_path}.subnets[0]", "still holds the placeholder <Subnet Id>"),
    ]


def list_delegate_refusals(host: int, name: int) -> Refusals:
    return [
        (host, 9, "containerDefinitions[0].hostname", "placeholder <DELEGATE_HOST>"),
        (name, 9, "containerDefinitions[0].name", "placeholder <DELEGATE_NAME>"),
    ]


# The samples that only wait for what a reader fills in.
WITH_PLACEHOLDERS: list[tuple[str, str, Refusals]] = [
    (
        "task-definition.json",
        TASK_DEFINITION,
        [(3, 3, "executionRoleArn", "<Role ARN>"), (53, 3, "taskRoleArn", "<Role ARN>")],
    ),
    ("blue-green-task-definition.yaml", TASK_DEFINITION, ROLES),
    ("run-task-definition.yaml", TASK_DEFINITION, ROLES),
    ("delegate-task-definition.json", TASK_DEFINITION, list_delegate_refusals(58, 59)),
    ("delegate-task-definition-legacy.json", TASK_DEFINITION, list_delegate_refusals(58, 59)),
    ("ec2-delegate-task-definition.json", TASK_DEFINITION, []),
    (
        "fargate-delegate-task-definition.json",
        TASK_DEFINITION,
        [(9, 3, "executionRoleArn", "still holds the placeholder PUT_YOUR_AWS_ACCOUNT_ID")],
    ),
    ("service-definition-unquoted.json", SERVICE_DEFINITION, list_network_refusals((8, 17), (11, 17))),
    ("service-definition.yaml", SERVICE_DEFINITION, list_network_refusals((7, 9), (9, 9))),
    ("blue-green-service-definition.yaml", SERVICE_DEFINITION, list_network_refusals((7, 9), (9, 9))),
    ("service-registries.yaml", SERVICE_DEFINITION, []),
    (
        "delegate-service-definition.json",
        SERVICE_DEFINITION,
        [
            (4, 4, "serviceName", "placeholder <SERVICE_NAME>"),
            (11, 10, "networkConfiguration.awsvpcConfiguration.subnets[0]", "placeholder <SUBNET>"),
            (14, 10, "networkConfiguration.awsvpcConfiguration.securityGroups[0]", "begin with sg-"),
        ],
    ),
    (
        "fargate-delegate-service-definition.json",
        SERVICE_DEFINITION,
        [
            (10, 9, "networkConfiguration.awsvpcConfiguration.subnets[0]", "PUT_YOUR_SUBNET_ID"),
            (
                13,
                9,
                "networkConfiguration.awsvpcConfiguration.securityGroups[0]",
                "PUT_YOUR_SECURITY_GROUP_ID",
            ),
        ],
    ),
    ("run-task-request.yaml", RUN_TASK_REQUEST, list_network_refusals((5, 9), (7, 9))),
    ("scalable-target.yaml", SCALABLE_TARGET, []),
    ("scaling-policy.yaml", SCALING_POLICY, []),
]
# The samples that are not what AWS takes, whatever is filled in.
WRONG: list[tuple[str, str, Refusals]] = [
    ("services-array.json", SERVICE_DEFINITION, [(1, 2, "services", 'remove the "services" array')]),
    (
        "describe-services-answer.json",
        SERVICE_DEFINITION,
        [(2, 3, "services", 'remove the "services" array')],
    ),
    (
        "circuit-breaker-answer-whole.json",
        SERVICE_DEFINITION,
        [(1, 2, "service", 'remove the "service" object')],
    ),
    (
        "circuit-breaker-on-the-command-line.yaml",
        SERVICE_DEFINITION,
        [(3, 1, "deployment-configuration", "deploymentCircuitBreaker: {enable: true, rollback: true}")],
    ),
    (
        "describe-scalable-targets-answer.json",
        SCALABLE_TARGET,
        [(2, 3, "ScalableTargets", "the definition itself belongs at the top")],
    ),
    (
        "describe-scaling-policies-answer.json",
        SCALING_POLICY,
        [(2, 3, "ScalingPolicies", "the definition itself belongs at the top")],
    ),
]
# The samples that are no YAML and no JSON: line, column, and what to do.
UNREADABLE = [
    ("task-definition-misindented.yaml", 5, 2, "begin the keys of one mapping in the same column"),
    ("service-registries-in-bold.yaml", 14, 2, "remove the asterisks"),
    ("circuit-breaker-answer.json", 36, 1, "put the whole document there"),
]


def read_sample(name: str) -> str:
    return (SAMPLES / name).read_text()


def check_sample(name: str, kind: str, text: str) -> CheckedManifest:
    return check_manifest(kind, parse_document(text, name))


def test_every_sample_is_in_a_table() -> None:
    listed_names = [row[0] for table in (WITH_PLACEHOLDERS, WRONG, UNREADABLE) for row in table]
    assert sorted(listed_names) == sorted(path.name for path in SAMPLES.iterdir())


@pytest.mark.parametrize(
    ("name", "kind", "refusals"), WITH_PLACEHOLDERS + WRONG, ids=lambda value: str(value)[:40]
)
def test_a_sample_is_refused_for_what_is_wrong_with_it_and_nothing_else(
    name: str, kind: str, refusals: Refusals
) -> None:
    problems = check_sample(name, kind, read_sample(name)).problems
    assert [(row.line, row.column, row.path) for row in problems] == [row[:3] for row in refusals]
    assert all(row.file == name for row in problems)
    for problem, (*_, message) in zip(problems, refusals, strict=True):
        assert message in problem.message


@pytest.mark.parametrize(("name", "kind"), [row[:2] for row in WITH_PLACEHOLDERS])
def test_a_sample_is_accepted_once_its_placeholders_are_filled_in(name: str, kind: str) -> None:
    text = read_sample(name)
    for placeholder, value in FILLED.items():
        text = text.replace(placeholder, value)
    manifest = check_sample(name, kind, text)
    assert manifest.problems == ()
    assert "null" not in str(manifest.value)
    assert None not in manifest.value.values()


@pytest.mark.parametrize(("name", "line", "column", "message"), UNREADABLE)
def test_a_sample_that_cannot_be_read_is_refused_where_reading_ends(
    name: str, line: int, column: int, message: str
) -> None:
    with pytest.raises(BadDocument) as error:
        parse_document(read_sample(name), name)
    assert (error.value.name, error.value.line, error.value.column) == (name, line, column)
    assert message in error.value.message


def test_json_with_a_forgotten_quote_means_what_was_meant() -> None:
    text = read_sample("service-definition-unquoted.json")
    value = parse_document(text, "f").value
    assert (value["serviceName"], value["deploymentConfiguration"]["maximumPercent"]) == ("myapp", 100)
    assert value["deploymentConfiguration"]["minimumHealthyPercent"] == 0


def test_what_only_the_application_reads_may_look_like_a_placeholder() -> None:
    manifest = check_sample("f", TASK_DEFINITION, read_sample("ec2-delegate-task-definition.json"))
    assert [warning.path for warning in manifest.warnings] == [
        f"containerDefinitions[0].environment[{number}].value" for number in range(3)
    ]
    assert "looks like the placeholder PUT_YOUR_ACCOUNT_ID" in manifest.warnings[0].message


def test_a_copied_answer_with_the_breaker_is_told_where_the_breaker_belongs() -> None:
    text = (
        "serviceName: a\ndesiredCount: 1\ndeploymentConfiguration: deploymentCircuitBreaker={enable=true}\n"
    )
    (problem,) = check_sample("f", SERVICE_DEFINITION, text).problems
    assert (problem.line, problem.path) == (3, "deploymentConfiguration")
    assert "as a mapping" in problem.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- x\nb: 1\n", "begin the dashes of one list in the same column"),
        ("a: 1\n```\n", "remove the line"),
    ],
)
def test_what_comes_along_from_a_page_is_told_in_plain_words(text: str, message: str) -> None:
    with pytest.raises(BadDocument, match=message):
        parse_document(text, "f")
