"""Carries out commands of the AWS CLI as the CLI would, from the service's own model, without starting it."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from botocore import xform_name
from botocore.exceptions import ClientError

from tests.contract.endpoint import client

FILE = "file://"
# Whoever follows the documents twice meets these, and goes on.
THERE_ALREADY = ("EntityAlreadyExists", "ResourceAlreadyExistsException")


def run(url: str, command: str, files: Mapping[str, str]) -> Any:
    """Run one `aws …` command against an endpoint; `file://` refers to one of `files`."""
    program, service, operation, *words = shlex.split(command)
    assert program == "aws", command
    flags = _flags(words)
    region = flags.pop("region", ["us-east-1"])[0]
    for output_flag in ("query", "output"):
        flags.pop(output_flag, None)
    service_client = client(url, service, region=region)
    method = operation.replace("-", "_")
    model = service_client.meta.service_model.operation_model(
        service_client.meta.method_to_api_mapping[method]
    )
    params: dict[str, Any] = {}
    if document := flags.pop("cli-input-json", None):
        params = json.loads(files[document[0].removeprefix(FILE)])
    shapes = {xform_name(name, "-"): (name, shape) for name, shape in model.input_shape.members.items()}
    for flag, values in flags.items():
        name, shape = shapes[flag]
        params[name] = _value(shape.type_name, [_text(value, files) for value in values])
    try:
        return getattr(service_client, method)(**params)
    except ClientError as exc:
        if exc.response["Error"]["Code"] not in THERE_ALREADY:
            raise
        return None


def _flags(words: list[str]) -> dict[str, list[str]]:
    flags: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            flags[word.removeprefix("--")] = current = []
        else:
            current.append(word)
    return flags


def _text(value: str, files: Mapping[str, str]) -> str:
    return files[value.removeprefix(FILE)] if value.startswith(FILE) else value


def _value(kind: str, values: list[str]) -> Any:
    if kind == "list":
        return values
    if kind in ("structure", "map"):
        return json.loads(values[0])
    if kind == "integer":
        return int(values[0])
    return values[0] if kind != "boolean" else True
