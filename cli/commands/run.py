"""Command `run`."""

import math
import uuid
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.client import ApiClient
from cli.console import print_json, print_text
from cli.errors import CliError, ExitCode
from cli.lookups import find_resource
from cli.options import (
    ForceOption,
    InputSetsOption,
    InputsOption,
    JsonOption,
    PipelineArgument,
    ScopeOption,
    TagOption,
    UrlOption,
    connect,
)
from cli.resources.yaml_documents import read_pipeline
from cli.watch.follow import OnInterrupt, build_execution_url, choose_display, follow


def run(  # noqa: PLR0913 - each is an option
    pipeline: PipelineArgument,
    tag: TagOption = "",
    inputs: InputsOption = None,
    input_sets: InputSetsOption = None,
    is_followed: Annotated[
        bool, typer.Option("--follow", "-f", help="Show plan and log until the end; exit with the result.")
    ] = False,
    on_interrupt: Annotated[
        OnInterrupt, typer.Option("--on-interrupt", help="Reaction to Ctrl-C while following.")
    ] = OnInterrupt.ASK,
    idempotency_key: Annotated[
        str,
        typer.Option(
            "--idempotency-key",
            help="Key under which only one run starts, such as the number of a CI job; by default a new one.",
            show_default=False,
        ),
    ] = "",
    is_freeze_overridden: Annotated[
        bool, typer.Option("--override-freeze", help="Run during a freeze window that you may override.")
    ] = False,
    is_forced: ForceOption = False,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline, and follow it with --follow.

    With --follow the exit code is the result: 0 success, 10 failed, 11 rolled back, 12 aborted, 13 rejected,
    14 timed out, 15 unknown.
    """
    if not idempotency_key.isascii() or not idempotency_key.isprintable():
        raise CliError("--idempotency-key must be printable ASCII.", code=ExitCode.USAGE)
    client = connect(url)
    found = find_resource(client, "pipelines", pipeline, scope)
    choices = build_run_choices(found, tag, inputs or [], input_sets or [], is_forced=is_forced)
    started = client.send(
        "POST",
        f"pipelines/{found['id']}/executions",
        body={**choices, "override_freeze": is_freeze_overridden},
        # A repeated request after a lost answer returns the run that it started.
        idempotency_key=idempotency_key or str(uuid.uuid4()),
    ).document
    if not is_followed:
        _print_start(client, pipeline, started, as_json=as_json)
        return
    display = choose_display(as_json=as_json)
    raise typer.Exit(follow(client, started["id"], display, on_interrupt=on_interrupt))


def build_run_choices(
    pipeline: Mapping[str, Any], tag: str, inputs: list[str], input_sets: list[str], *, is_forced: bool
) -> dict[str, Any]:
    """Return the tag, inputs and input sets of a run or its rehearsal, for the API.

    Raises `CliError` for an input without a name.
    """
    choices: dict[str, Any] = {
        "inputs": parse_inputs(inputs, pipeline["yaml"]),
        "input_sets": input_sets,
        "artifact": {"tag": tag},
    }
    return {**choices, "forceNewDeployment": True} if is_forced else choices


def parse_inputs(texts: list[str], pipeline_yaml: str) -> dict[str, Any]:
    """Return the inputs of NAME=VALUE texts, with the types of the pipeline's variables.

    Raises `CliError` for a text without a name.
    """
    variables = _read_variables(pipeline_yaml)
    inputs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise CliError(
                f"--input {text} has no value.", next_step="Use --input NAME=VALUE.", code=ExitCode.USAGE
            )
        inputs[name] = _convert(value, variables.get(name))
    return inputs


def _read_variables(pipeline_yaml: str) -> Mapping[str, Any]:
    variables = read_pipeline(pipeline_yaml).get("variables")
    return variables if isinstance(variables, Mapping) else {}


def _convert(text: str, definition: Any) -> Any:
    """Return `text` with the type of a variable; the server validates it."""
    definition = definition if isinstance(definition, Mapping) else {}
    for allowed in definition.get("allowedValues") or []:
        if not isinstance(allowed, str) and str(allowed).lower() == text.lower():
            return allowed
    if definition.get("type") == "Boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if definition.get("type") == "Number":
        for convert in (int, float):
            try:
                number = convert(text)
            except ValueError:
                continue
            # JSON has no nan and no infinity.
            return number if convert is int or math.isfinite(number) else text
    return text


def _print_start(client: ApiClient, pipeline: str, started: Mapping[str, Any], *, as_json: bool) -> None:
    page = build_execution_url(client, started["id"])
    if as_json:
        print_json({**started, "pipeline": pipeline, "url": page})
        return
    label = f"{pipeline}#{started['number']}"
    print_text(f"Started {label}: {page}")
    print_text(f"Follow it: slipway logs '{label}' --follow", style="dim")
