"""Checking manifests: every problem names file, path and line."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.shapes import get_parameter_names
from catalog.manifests.checks import (
    CheckedManifest,
    check_deployable,
    check_manifest,
    check_with_task_definition,
)
from catalog.manifests.documents import Document, parse_manifest
from catalog.manifests.kinds import (
    MANIFEST_KINDS,
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
)
from catalog.manifests.layers import ManifestLayer, merge_layers
from catalog.manifests.manifest_files import check_manifest_text
from tests.catalog.manifests import reference_samples as samples
from tests.fixtures.time_limits import run_within_cpu
from tests.lanes import examples


def check_text(kind: str, text: str) -> CheckedManifest:
    return check_manifest(kind, parse_manifest(text, "/app/manifest.yaml"))


def replace_once(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (TASK_DEFINITION, samples.TASK_DEFINITION),
        (SERVICE_DEFINITION, samples.SERVICE_DEFINITION),
        (SERVICE_DEFINITION, samples.BROKEN_JSON_SERVICE_DEFINITION),
        (SCALABLE_TARGET, samples.SCALABLE_TARGET),
        (SCALING_POLICY, samples.SCALING_POLICY),
    ],
)
def test_the_samples_of_the_reference_are_right(kind: str, text: str) -> None:
    manifest = check_text(kind, text)
    assert manifest.problems == ()
    assert manifest.warnings == ()


def test_nulls_are_dropped_and_empty_lists_sent() -> None:
    value = check_text(TASK_DEFINITION, samples.TASK_DEFINITION).value
    assert "ipcMode" not in value
    assert "linuxParameters" not in value["containerDefinitions"][0]
    assert value["volumes"] == []
    assert value["containerDefinitions"][0]["environment"] == []


def test_numbers_are_text_where_aws_wants_text_and_a_note_says_so() -> None:
    text = replace_once(
        samples.TASK_DEFINITION, "cpu: '256'\n", "cpu: 256\ntags: [{key: zip, value: 01.10}]\n"
    )
    manifest = check_text(TASK_DEFINITION, replace_once(text, "memory: '512'", "memory: 512"))
    assert manifest.problems == ()
    assert [manifest.value[key] for key in ("cpu", "memory")] == ["256", "512"]
    assert manifest.value["tags"] == [{"key": "zip", "value": "01.10"}], "as it is written"
    assert [(warning.path, warning.line) for warning in manifest.warnings] == [
        ("memory", 45),
        ("cpu", 53),
        ("tags[0].value", 54),
    ]
    assert 'sent as text "256"' in manifest.warnings[1].message


def test_a_number_of_an_override_is_written_as_there() -> None:
    base = ManifestLayer("service", parse_manifest(samples.TASK_DEFINITION, "base"))
    override_layer = ManifestLayer("environment", parse_manifest("tags: [{key: zip, value: 012}]", "over"))
    manifest = check_manifest(TASK_DEFINITION, merge_layers(TASK_DEFINITION, [base, override_layer]).document)
    assert manifest.value["tags"][0]["value"] == "012"


@pytest.mark.parametrize(
    "sizes", ["cpu: .25 vCPU\nmemory: .5 gb", "cpu: .25vcpu\nmemory: 0.5 GB", "cpu: 256\nmemory: 512"]
)
def test_sizes_that_aws_reads_are_taken(sizes: str) -> None:
    text = replace_once(samples.TASK_DEFINITION, "cpu: '256'", sizes.partition("\n")[0])
    assert (
        check_text(TASK_DEFINITION, replace_once(text, "memory: '512'", sizes.partition("\n")[2])).problems
        == ()
    )


@pytest.mark.parametrize("size", ["9" * 5000, f"{'9' * 400} vcpu"])
def test_a_size_of_very_many_digits_is_a_problem(size: str) -> None:
    containers = "containerDefinitions: [{name: app, image: nginx, memory: 512}]"
    text = f"family: app\ncpu: '{size}'\n{containers}\n"
    (problem,) = check_manifest_text(TASK_DEFINITION, text).errors
    assert "is not a size" in problem.message
    assert len(problem.message) < 200


def test_an_empty_choice_is_none_as_pipecd_writes_it() -> None:
    manifest = check_text(TASK_DEFINITION, replace_once(samples.TASK_DEFINITION, "pidMode:", 'pidMode: ""'))
    assert manifest.problems == ()
    assert "pidMode" not in manifest.value


@pytest.mark.parametrize(
    ("field", "path", "message"),
    [
        ("deploymentController: {type: CODE_DEPLOY}", "deploymentController.type", "Remove"),
        ("deploymentController: {type: EXTERNAL}", "deploymentController.type", "Remove"),
    ],
)
def test_a_definition_that_no_step_can_deploy_is_refused(field: str, path: str, message: str) -> None:
    text = f"serviceName: web\nlaunchType: EC2\n{field}\n"
    (problem,) = check_text(SERVICE_DEFINITION, text).problems
    assert (problem.path, problem.line, message in problem.message) == (path, 3, True)
    deferred_text = re.sub(r"[A-Z_]{6,}(?=}?\n\Z)", "<+serviceVariables.it>", text)
    assert deferred_text != text
    assert check_text(SERVICE_DEFINITION, deferred_text).problems == (), (
        "what it will be is checked by the run"
    )


@pytest.mark.parametrize(
    ("text", "key", "advice"),
    [
        ("daemonName: agent\ncapacityProviderArns: [managed]\n", "daemonName", "aws ecs update-daemon"),
        ("serviceName: web\nprimaryContainer: {image: web}\n", "primaryContainer", "express-gateway-service"),
    ],
)
def test_definitions_of_daemons_and_express_services_are_refused_with_the_way_out(
    text: str, key: str, advice: str
) -> None:
    (problem,) = check_text(SERVICE_DEFINITION, text).problems
    assert (problem.path, advice in problem.message) == (key, True)


def test_only_the_rolling_step_deploys_a_daemon() -> None:
    document = parse_manifest("serviceName: web\nschedulingStrategy: DAEMON\n", "f")
    assert check_deployable(document) == ()
    (problem,) = check_deployable(document, is_only_rolling=False)
    assert (problem.path, problem.line) == ("schedulingStrategy", 2)
    assert "EcsRollingDeploy" in problem.message


@pytest.mark.parametrize("strategy", ["BLUE_GREEN", "LINEAR", "CANARY"])
def test_only_the_native_step_deploys_by_a_strategy_of_ecs(strategy: str) -> None:
    document = parse_manifest(f"serviceName: web\ndeploymentConfiguration: {{strategy: {strategy}}}\n", "f")
    assert check_deployable(document) == ()
    (problem,) = check_deployable(document, is_classic=True)
    assert (problem.path, problem.line) == ("deploymentConfiguration.strategy", 2)
    assert "EcsNativeDeploy" in problem.message


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ("deploymentConfiguration: {deploymentCircuitBreaker: {enable: true, rollback: true}}", "breaker"),
        ("loadBalancers: []", "group"),
        ("", "group"),
        ("loadBalancers: <+serviceVariables.balancers>", ""),
        ("deploymentConfiguration: {deploymentCircuitBreaker: {enable: false, rollback: false}}", ""),
    ],
)
def test_what_blue_green_needs_of_a_definition(fields: str, path: str) -> None:
    load_balancers = (
        "loadBalancers: [{targetGroupArn: <+targetGroupArn>, containerName: a, containerPort: 80}]\n"
    )
    text = f"serviceName: web\n{fields}\n" + (load_balancers if "deployment" in fields else "")
    problems = check_deployable(parse_manifest(text, "f"), is_blue_green=True)
    assert ["breaker" if "Breaker" in problem.path else "group" for problem in problems] == [path] * bool(
        path
    )
    assert check_deployable(parse_manifest(text, "f"), is_blue_green=False) == ()


def test_a_document_of_json_may_hold_anything() -> None:
    details = {"limit": 5, "of": ["a", {"b": True}]}
    hook = {
        "hookTargetArn": "arn:aws:lambda:us-east-1:123456789012:function:f",
        "roleArn": "arn:aws:iam::123456789012:role/r",
        "lifecycleStages": ["POST_SCALE_UP"],
        "hookDetails": details,
    }
    hooks = f"deploymentConfiguration:\n  lifecycleHooks: [{json.dumps(hook)}]"
    manifest = check_text(
        SERVICE_DEFINITION, replace_once(samples.SERVICE_DEFINITION, "deploymentConfiguration:", hooks)
    )
    assert manifest.problems == ()
    (lifecycle_hook,) = manifest.value["deploymentConfiguration"]["lifecycleHooks"]
    assert lifecycle_hook["hookDetails"] == details


@pytest.mark.parametrize(
    ("kind", "text", "path", "line", "message"),
    [
        (
            TASK_DEFINITION,
            replace_once(samples.TASK_DEFINITION, "  memoryReservation: 128", "  memoryReservaton: 128"),
            "containerDefinitions[0].memoryReservaton",
            23,
            'did you mean "memoryReservation"',
        ),
        (
            TASK_DEFINITION,
            replace_once(samples.TASK_DEFINITION, "cpu: '256'", "cpu: true"),
            "cpu",
            53,
            'put it in quotes: "true"',
        ),
        (
            TASK_DEFINITION,
            replace_once(samples.TASK_DEFINITION, "memory: '512'", "memory: '700'"),
            "memory",
            45,
            "Fargate has no 700 MiB with 256 CPU units; use 512, 1024, 2048",
        ),
        (
            TASK_DEFINITION,
            replace_once(samples.TASK_DEFINITION, "networkMode: awsvpc", "networkMode: bogus"),
            "networkMode",
            51,
            "is not one of",
        ),
        (
            TASK_DEFINITION,
            replace_once(samples.TASK_DEFINITION, "  name: nginx", "  name:"),
            "containerDefinitions[0]",
            4,
            'needs its "name"',
        ),
        (
            SERVICE_DEFINITION,
            replace_once(samples.SERVICE_DEFINITION, "serviceName: myapp\n", ""),
            "document",
            1,
            '"serviceName" is missing',
        ),
        (
            SERVICE_DEFINITION,
            replace_once(samples.SERVICE_DEFINITION, "maximumPercent: 200", "maximumPercent: two hundred"),
            "deploymentConfiguration.maximumPercent",
            12,
            "whole number",
        ),
        (
            SERVICE_DEFINITION,
            replace_once(samples.SERVICE_DEFINITION, "- sg-0123456789abcdef0", "- <Security Group Id>"),
            "networkConfiguration.awsvpcConfiguration.securityGroups[0]",
            7,
            "placeholder <Security Group Id>",
        ),
        (
            SERVICE_DEFINITION,
            samples.SERVICE_DEFINITION + "runningCount: 1\n",
            "runningCount",
            14,
            "part of an AWS response",
        ),
        (
            SCALABLE_TARGET,
            replace_once(samples.SCALABLE_TARGET, "minCapacity: 1", "minCapacity: 9"),
            "minCapacity",
            3,
            "more than the MaxCapacity of 3",
        ),
        (
            SCALING_POLICY,
            replace_once(samples.SCALING_POLICY, "  targetValue: 60\n", ""),
            "targetTrackingScalingPolicyConfiguration",
            5,
            '"TargetValue" is missing',
        ),
    ],
)
def test_a_problem_names_file_path_and_line(kind: str, text: str, path: str, line: int, message: str) -> None:
    (problem,) = check_text(kind, text).problems
    assert (problem.file, problem.path, problem.line) == ("/app/manifest.yaml", path, line)
    assert message in problem.message
    assert str(problem) == f"/app/manifest.yaml, line {line}: {path}: {problem.message}"


def test_problems_come_in_the_order_of_the_text() -> None:
    text = "family: a b\nmemry: '512'\ncontainerDefinitions:\n- name: x\n  imag: y\n"
    assert [problem.line for problem in check_text(TASK_DEFINITION, text).problems] == [1, 2, 4, 4, 5]


@pytest.mark.parametrize(
    "text", ["services: []", "services:\n- serviceName: myapp\n", '{"services": [], "failures": []}']
)
def test_the_services_array_of_a_copied_definition_is_found(text: str) -> None:
    (problem,) = check_text(SERVICE_DEFINITION, text).problems
    assert problem.path == "services"
    assert 'remove the "services" array' in problem.message


def test_the_wrapping_of_a_copied_task_definition_is_found() -> None:
    (problem,) = check_text(TASK_DEFINITION, "taskDefinition:\n  family: x\n").problems
    assert 'remove the "taskDefinition" object' in problem.message


def test_a_task_definition_inside_a_service_definition_is_ignored_with_a_warning() -> None:
    text = samples.SERVICE_DEFINITION + "taskDefinition: myapp:1\ncontainerDefinitions: []\ncluster: other\n"
    manifest = check_text(SERVICE_DEFINITION, text)
    assert manifest.problems == ()
    assert [(warning.path, warning.line) for warning in manifest.warnings] == [
        ("taskDefinition", 14),
        ("containerDefinitions", 15),
        ("cluster", 16),
    ]
    assert all("is ignored" in warning.message for warning in manifest.warnings)
    assert not {"taskDefinition", "containerDefinitions", "cluster"} & manifest.value.keys()


def test_scaling_manifests_are_sent_in_the_spelling_of_aws() -> None:
    value = check_text(SCALING_POLICY, samples.SCALING_POLICY).value
    tracking_policy = value["TargetTrackingScalingPolicyConfiguration"]
    assert tracking_policy["PredefinedMetricSpecification"] == {
        "PredefinedMetricType": "ECSServiceAverageCPUUtilization"
    }
    second_manifest = check_manifest(SCALING_POLICY, Document("f", value))
    assert second_manifest.value == value
    assert second_manifest.problems == ()


def test_a_lone_expression_is_fitted_to_its_place_and_a_written_value_is_not() -> None:
    text = replace_once(
        samples.SERVICE_DEFINITION, "desiredCount: 1", "desiredCount: <+pipeline.variables.count>"
    )
    document = parse_manifest(text, "f")
    assert check_manifest(SERVICE_DEFINITION, document).problems == ()
    resolved_document = document.with_value({**document.value, "desiredCount": "3"})
    manifest = check_manifest(SERVICE_DEFINITION, resolved_document)
    assert (manifest.problems, manifest.value["desiredCount"]) == ((), 3)
    (problem,) = check_text(
        SERVICE_DEFINITION, replace_once(text, "<+pipeline.variables.count>", "'3'")
    ).problems
    assert "without quotes" in problem.message


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text", "5"])
def test_a_document_that_is_no_mapping_is_a_problem(text: str) -> None:
    (problem,) = check_text(TASK_DEFINITION, text).problems
    assert "is a mapping" in problem.message


def test_a_service_that_does_not_go_with_its_task_definition_is_a_problem_of_the_service() -> None:
    task_definition = check_text(TASK_DEFINITION, samples.TASK_DEFINITION).value
    service = parse_manifest(samples.SERVICE_DEFINITION, "s.yaml")
    assert check_with_task_definition(service, task_definition).problems == ()
    (problem,) = check_with_task_definition(
        service, {**task_definition, "requiresCompatibilities": ["EC2"]}
    ).problems
    assert (problem.file, problem.path, problem.line) == ("s.yaml", "launchType", 1)


def test_a_large_manifest_is_checked_in_well_under_a_second() -> None:
    containers = "".join(
        f"- name: c{n}\n  image: i\n  environment:\n"
        + "".join(f"  - name: V{number}\n    value: <+primary.artifact.image>\n" for number in range(90))
        for n in range(10)
    )
    text = f"family: big\nmemory: '512'\ncontainerDefinitions:\n{containers}"
    document = parse_manifest(text, "f")
    read_document = document.with_value(document.value)
    assert run_within_cpu(1, lambda: check_manifest(TASK_DEFINITION, read_document)).problems == ()


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3)
    ),
    max_leaves=8,
)
KEYS = sorted(
    {"services", "taskDefinition", "minCapacity", "policyName"}.union(
        *(get_parameter_names(kind.service, kind.operation) for kind in MANIFEST_KINDS.values())
    )
)


@settings(max_examples=examples(300))
@given(
    st.sampled_from(sorted(MANIFEST_KINDS)),
    st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), junk, max_size=5),
)
def test_no_document_breaks_the_check(kind: str, value: dict[str, Any]) -> None:
    manifest = check_manifest(kind, Document("f", value))
    assert all(str(problem) for problem in (*manifest.problems, *manifest.warnings))
