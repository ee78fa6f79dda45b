"""Projects of ecspresso: a configuration with a service definition and a task definition.

Format: https://github.com/kayac/ecspresso, version 2.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from catalog.manifests.documents import Document
from pipelines.imports.definitions import EcsDefinitions, read_definitions
from pipelines.imports.environment_variables import EnvironmentVariables
from pipelines.imports.projects import (
    BLUE_GREEN,
    NATIVE,
    ROLLING,
    ImportedProject,
    build_strategy_steps,
    parse_go_duration,
)
from pipelines.imports.source_files import (
    ImportNotice,
    SourceFiles,
    get_line,
    parse_file,
    refuse,
    refuse_jsonnet,
)
from steps.strategies.registry import add_controller_change

TOOL: Final = "ecspresso"
RENDER_ADVICE: Final = (
    "Write the evaluated files with `ecspresso render servicedef` and `ecspresso render taskdef`, and import "
    "those."
)
_CONFIG_NAMES: Final = (
    "ecspresso.yml",
    "ecspresso.yaml",
    "ecspresso.json",
    "ecspresso.jsonnet",
)
_CONFIG_MARKER: Final = re.compile(r"^\s*\"?task_definition\"?\s*:", re.MULTILINE)
_DEFAULT_CLUSTER: Final = "default"
_READ_KEYS: Final = ("region", "cluster", "service", "service_definition", "task_definition", "timeout")
# Settings of the other tool that say nothing about the deployment.
_OWN_KEYS: Final = ("required_version", "filter_command")
_KEY_ADVICE: Final[Mapping[str, str]] = {
    "plugins": "template functions of plugins are not evaluated; files that use none are imported unchanged",
    "codedeploy": "Slipway does not deploy with CodeDeploy: its blue/green steps swap the listeners",
    "appspec": "hooks of CodeDeploy are not imported: add a Run Task, Http or Verify step where they ran",
    "ignore": "is not imported: what other tools change is shown as drift, where it can be accepted",
}


def read_ecspresso(
    files: SourceFiles, values: Mapping[str, str], *, region: str = "", cluster: str = ""
) -> ImportedProject:
    """Read a project; `region` and `cluster` replace those of the files. Raises `ImportRefused`."""
    variables = EnvironmentVariables(values, TOOL, RENDER_ADVICE)
    source = files.find_config(_CONFIG_NAMES, _CONFIG_MARKER, TOOL)
    if source.name.endswith(".jsonnet"):
        refuse_jsonnet(source.name, source.name, 1)
    config = parse_file(source, variables.expand(source))
    read = _build_reader(config, variables)
    if not config.value.get("service_definition"):
        message = (
            "needs service_definition: without one ecspresso deploys no service. Run tasks by a Run Task step"
        )
        refuse(config.name, 1, message)
    definitions = read_definitions(
        files.get_referenced(read("task_definition"), config, "task_definition"),
        files.get_referenced(read("service_definition"), config, "service_definition"),
        variables,
        read("service"),
    )
    notices = [*_list_notices(config)]
    timeout = parse_go_duration(read("timeout"))
    if read("timeout") and not timeout:
        line = get_line(config, ("timeout",))
        notices.append(ImportNotice(config.name, line, "timeout is not a duration such as 10m"))
    definitions, is_blue_green = _prepare_blue_green(definitions)
    limit = f"{timeout}s" if timeout else ""
    strategy = NATIVE if definitions.native_strategy else BLUE_GREEN if is_blue_green else ROLLING
    steps = build_strategy_steps(strategy, limit)
    referring = definitions.refer(variables)
    if definitions.controller and not is_blue_green:
        steps = add_controller_change(steps, referring.service_name)
    task, service = definitions.task_definition.value, definitions.service_definition.value
    return ImportedProject(
        TOOL,
        region or read("region"),
        (cluster or read("cluster") or _DEFAULT_CLUSTER).rpartition("/")[2],
        referring,
        steps,
        variables.list_service_variables(task, service),
        variables.list_inputs(task, service),
        (*notices, *definitions.notices),
    )


def _build_reader(config: Document, variables: EnvironmentVariables) -> Callable[[str], str]:
    """Return a function that reads a key as text; empty if it is not set."""

    def read(key: str) -> str:
        line = get_line(config, (key,))
        value = variables.resolve_text(config.value.get(key), config.name, line)
        if value is not None and not isinstance(value, str):
            refuse(config.name, line, f"{key} must be a text")
        return value or ""

    return read


def _list_notices(config: Document) -> Iterator[ImportNotice]:
    """Yield the settings that have no equal in Slipway."""
    for key, value in config.value.items():
        if key in _READ_KEYS or key in _OWN_KEYS or not value:
            continue
        advice = _KEY_ADVICE.get(key, "is unknown and not imported")
        yield ImportNotice(config.name, get_line(config, (key,)), f"{key}: {advice}")


def _prepare_blue_green(definitions: EcsDefinitions) -> tuple[EcsDefinitions, bool]:
    """Return the definitions for the strategy, and whether it is blue/green."""
    is_blue_green = definitions.controller == "CODE_DEPLOY" and definitions.has_one_target_group
    return (definitions.for_blue_green() if is_blue_green else definitions), is_blue_green
