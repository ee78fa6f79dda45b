"""Clean up of manifests that were copied from an answer of AWS, or from another tool."""

import json
from typing import Any

import pytest
from botocore.session import get_session

from catalog.manifests.checks import check_manifest
from catalog.manifests.cleanup import CleanedText, clean_up_manifest
from catalog.manifests.documents import BadDocument, parse_manifest
from catalog.manifests.kinds import (
    MANIFEST_KINDS,
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
)
from tests.catalog.manifests import reference_samples as samples

ANSWERED_TASK_DEFINITION = {
    "taskDefinitionArn": "arn:aws:ecs:us-east-1:123456789012:task-definition/myapp:7",
    "revision": 7,
    "status": "ACTIVE",
    "requiresAttributes": [{"name": "com.amazonaws.ecs.capability.ecr-auth"}],
    "compatibilities": ["EC2", "FARGATE"],
    "registeredAt": "2026-01-01T10:00:00+00:00",
    "registeredBy": "arn:aws:iam::123456789012:root",
}
ANSWERED_SERVICE = {
    "serviceArn": "arn:aws:ecs:us-east-1:123456789012:service/demo/myapp",
    "clusterArn": "arn:aws:ecs:us-east-1:123456789012:cluster/demo",
    "status": "ACTIVE",
    "runningCount": 1,
    "pendingCount": 0,
    "taskDefinition": "arn:aws:ecs:us-east-1:123456789012:task-definition/myapp:7",
    "events": [],
    "createdAt": "2026-01-01T10:00:00+00:00",
    "deployments": [
        {"status": "ACTIVE", "serviceConnectConfiguration": {"enabled": False}},
        {"status": "PRIMARY", "serviceConnectConfiguration": {"enabled": True, "namespace": "shop"}},
    ],
}


def _parse_value(text: str) -> Any:
    return parse_manifest(text, "f").value


def clean_up_value(kind: str, value: Any, service: str = "") -> tuple[dict[str, Any], CleanedText]:
    """Clean up a value; check that AWS takes the result and that a second run changes nothing."""
    cleaned = clean_up_manifest(kind, json.dumps(value), service)
    assert check_manifest(kind, parse_manifest(cleaned.text, "f")).problems == ()
    assert clean_up_manifest(kind, cleaned.text, service) == CleanedText(cleaned.text, ())
    return json.loads(cleaned.text), cleaned


def test_a_described_task_definition_becomes_one_to_register() -> None:
    definition = _parse_value(samples.TASK_DEFINITION)
    tags = [{"key": "team", "value": "shop"}]
    response = {"taskDefinition": {**definition, **ANSWERED_TASK_DEFINITION, "cpu": 256}, "tags": tags}
    value, cleaned = clean_up_value(TASK_DEFINITION, response)
    assert value == {**definition, "tags": tags}
    assert cleaned.changes == (
        'Took the definition out of "taskDefinition", which is part of the AWS response.',
        f"Removed {', '.join(list(ANSWERED_TASK_DEFINITION)[:-1])} and registeredBy: set only by AWS.",
        "Wrote cpu in the type that AWS requires.",
    )


@pytest.mark.parametrize("key", ["services", "service"])
def test_a_described_service_becomes_one_to_create(key: str) -> None:
    definition = _parse_value(samples.SERVICE_DEFINITION)
    service = {**definition, **ANSWERED_SERVICE}
    response = {"services": [service], "failures": []} if key == "services" else {"service": service}
    value, _ = clean_up_value(SERVICE_DEFINITION, response, "ignored")
    connect = ANSWERED_SERVICE["deployments"][1]["serviceConnectConfiguration"]  # type: ignore[index]
    assert value == {**definition, "serviceConnectConfiguration": connect}


def test_auto_scaling_as_described_becomes_requests() -> None:
    target, policy = _parse_value(samples.SCALABLE_TARGET), _parse_value(samples.SCALING_POLICY)
    response = {"ScalableTargets": [{**target, "ResourceId": "service/demo/myapp", "CreationTime": 1.5}]}
    assert clean_up_value(SCALABLE_TARGET, response)[0] == target
    response = {"ScalingPolicies": [{**policy, "PolicyARN": "arn:x", "Alarms": []}]}
    assert clean_up_value(SCALING_POLICY, response)[0] == policy


def test_a_missing_service_name_is_that_of_the_service() -> None:
    definition = _parse_value(samples.SERVICE_DEFINITION)
    del definition["serviceName"]
    assert clean_up_value(SERVICE_DEFINITION, definition, "shop")[0] == {**definition, "serviceName": "shop"}
    assert clean_up_manifest(SERVICE_DEFINITION, json.dumps(definition)).changes == ()


def test_an_array_beside_the_definition_goes() -> None:
    definition = _parse_value(samples.SERVICE_DEFINITION)
    assert clean_up_value(SERVICE_DEFINITION, {**definition, "services": []})[0] == definition


def test_yaml_keeps_its_comments_and_numbers_as_they_are_written() -> None:
    text = (
        "# ours\nfamily: web # the name\nrevision: 7\ncpu: 256 # small\nmemory: 0512\ncontainerDefinitions:\n"
        "  # serves\n  - name: web\n    image: nginx\n    environment: [{name: V, value: 1.10}]\n"
    )
    cleaned = clean_up_manifest(TASK_DEFINITION, text)
    expected_text = text.replace("revision: 7\n", "").replace("256", "'256'").replace("0512", "'0512'")
    entries = "environment:\n      - name: V\n        value: '1.10'"
    assert cleaned.text == expected_text.replace("environment: [{name: V, value: 1.10}]", entries)


def test_aliases_are_written_out_where_something_is_cleaned_up() -> None:
    text = "revision: 7\nfamily: &n web\ncontainerDefinitions:\n- {name: *n, image: nginx, user: '1e3'}\n"
    cleaned = clean_up_manifest(TASK_DEFINITION, text)
    container = {"name": "web", "image": "nginx", "user": "1e3"}
    assert _parse_value(cleaned.text) == {"family": "web", "containerDefinitions": [container]}
    assert clean_up_manifest(TASK_DEFINITION, text.replace("revision: 7\n", "")).changes == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"services": [{"serviceName": "a"}, {"serviceName": "b"}]}', '"services" holds 2 definitions'),
        ("- a\n- b\n", "a mapping of keys"),
        ("a: [1", "did not find"),
    ],
)
def test_what_cannot_be_cleaned_up_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadDocument, match=message):
        clean_up_manifest(SERVICE_DEFINITION, text)


@pytest.mark.parametrize("kind", [TASK_DEFINITION, SERVICE_DEFINITION, SCALABLE_TARGET, SCALING_POLICY])
def test_every_key_that_only_an_answer_has_is_removed(kind: str) -> None:
    manifest_kind = MANIFEST_KINDS[kind]
    model = get_session().get_service_model(manifest_kind.service)
    shape = model.operation_model(manifest_kind.answer[0]).output_shape.members[manifest_kind.answer[1]]
    response_fields = set((shape.member if shape.type_name == "list" else shape).members)
    request_fields = set(model.operation_model(manifest_kind.operation).input_shape.members)
    cleaned = clean_up_manifest(kind, json.dumps(dict.fromkeys(sorted(response_fields), None)))
    assert set(json.loads(cleaned.text)) == (response_fields & request_fields) - set(manifest_kind.ignored)
    assert manifest_kind.answered == response_fields - request_fields


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (SERVICE_DEFINITION, {"desiredCount": 1}),
        (SERVICE_DEFINITION, {"services": []}),
        (TASK_DEFINITION, {"taskDefinition": {}}),
        (TASK_DEFINITION, {**_parse_value(samples.TASK_DEFINITION), "revision": 7}),
    ],
)
def test_the_refusal_of_what_clean_up_mends_names_it(kind: str, value: Any) -> None:
    problems = check_manifest(kind, parse_manifest(json.dumps(value), "f")).problems
    assert any("Clean up" in problem.message for problem in problems)
