"""Every kind of spec: JSON that AWS takes, commands that a shell takes apart as they were meant."""

import json
import shlex

import pytest

from aws.validation.parameters import validate_parameters
from delegates.install import SpecRequest, lint_spec, write_spec
from tests.delegates.install.spec_variants import BASE, MATRIX, format_name

EACH_VARIANT = pytest.mark.parametrize("request_", MATRIX, ids=map(format_name, MATRIX))


@EACH_VARIANT
def test_its_documents_are_what_aws_takes(request_: SpecRequest) -> None:
    spec = write_spec(request_)
    documents = {name: json.loads(text) for name, text in spec.files.items() if name.endswith(".json")}
    (task,) = [document for document in documents.values() if "family" in document]
    services = [document for document in documents.values() if "serviceName" in document]
    assert task == spec.task_definition
    assert all(service == spec.service for service in services)
    assert validate_parameters("ecs", "RegisterTaskDefinition", spec.task_definition) == []
    assert validate_parameters("ecs", "CreateService", spec.service) == []


@EACH_VARIANT
def test_the_linter_has_nothing_to_say_about_it(request_: SpecRequest) -> None:
    spec = write_spec(request_)
    assert lint_spec(spec.task_definition, spec.service) == []


@EACH_VARIANT
def test_each_file_that_a_command_names_is_there(request_: SpecRequest) -> None:
    spec = write_spec(request_)
    named_files = {
        argument.removeprefix("file://")
        for command in spec.commands
        for argument in shlex.split(command.command)
        if argument.startswith("file://")
    }
    assert named_files == set(spec.files)


@EACH_VARIANT
def test_its_token_is_where_it_was_asked_for_and_in_no_command(request_: SpecRequest) -> None:
    spec = write_spec(request_)
    assert not any(BASE.token in command.command for command in spec.commands)
    holders = {name for name, text in spec.files.items() if BASE.token in text}
    expected = {"EXISTING": 0, "CREATE": 1, "PLAINTEXT": 1}[request_.secret.kind]
    assert len(holders) == expected
    if request_.secret.kind == "CREATE":
        assert holders == {"delegate-token.txt"}


@EACH_VARIANT
def test_its_create_service_command_and_its_service_say_the_same(request_: SpecRequest) -> None:
    spec = write_spec(request_)
    (create,) = [
        command.command for command in spec.list_commands("create") if "create-service" in command.command
    ]
    arguments = shlex.split(create)[3:]
    flags = dict(zip(arguments[::2], arguments[1::2], strict=True))
    if "--cli-input-json" in flags:
        assert json.loads(spec.files[flags["--cli-input-json"].removeprefix("file://")]) == spec.service
        return
    assert flags.pop("--cluster") == spec.service["cluster"]
    assert flags.pop("--service-name") == spec.service["serviceName"]
    assert flags.pop("--task-definition") == spec.service["taskDefinition"]
    assert flags.pop("--desired-count") == str(spec.service["desiredCount"])
    assert flags.pop("--launch-type", None) == spec.service.get("launchType")
    assert not flags
