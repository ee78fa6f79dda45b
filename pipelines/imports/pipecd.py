"""Projects of PipeCD: an app.pipecd.yaml of kind ECSApp with its service and task definition.

Format: https://pipecd.dev/docs/user-guide/configuration-reference/#ecs-application
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from catalog.manifests.documents import Document
from pipelines.imports.definitions import EcsDefinitions, read_definitions
from pipelines.imports.environment_variables import EnvironmentVariables
from pipelines.imports.pipecd_stages import build_steps, routes_traffic
from pipelines.imports.projects import ImportedProject
from pipelines.imports.source_files import (
    ImportNotice,
    SourceFiles,
    get_line,
    parse_file,
    refuse,
)
from steps.strategies.registry import add_controller_change

TOOL: Final = "PipeCD"
KIND: Final = "ECSApp"
_CONFIG_NAMES: Final = ("app.pipecd.yaml", "app.pipecd.yml", ".pipe.yaml")
_CONFIG_MARKER: Final = re.compile(r"^\"?kind\"?\s*:\s*\"?ECSApp\b", re.MULTILINE)
_RENDER_ADVICE: Final = "PipeCD does not evaluate it either: write the value."
_TASK_DEFINITION: Final = "taskdef.json"
_ARN: Final = re.compile(r"arn:[a-z-]+:ecs:([a-z0-9-]+):\d{12}:cluster/([A-Za-z0-9_-]+)")
_READ_KEYS: Final = ("input", "pipeline", "quickSync", "name")
# Settings that describe the application and say nothing about its deployment.
_OWN_KEYS: Final = ("labels", "description", "variantLabel")
_READ_INPUTS: Final = ("serviceDefinitionFile", "taskDefinitionFile", "targetGroups", "clusterArn")
_KEY_ADVICE: Final[Mapping[str, str]] = {
    "trigger": "add a trigger to the pipeline for the repository",
    "eventWatcher": "add an image trigger to the pipeline",
    "planner": "the steps of the pipeline always run; use conditions of steps to skip some",
    "commitMatcher": "the steps of the pipeline always run; use conditions of steps to skip some",
    "timeout": "set the timeout of each step",
    "notification": "add a notification rule",
    "postSync": "add steps or a further pipeline that a trigger starts",
    "encryption": "use secrets of Slipway or valueFrom of the task definition",
    "sealedSecrets": "use secrets of Slipway or valueFrom of the task definition",
    "attachment": "write the text into the definitions",
    "driftDetection": "drift is always detected; accept what other tools change on its page",
}
_INPUT_ADVICE: Final[Mapping[str, str]] = {
    "launchType": "is of standalone tasks: the service definition decides",
    "awsvpcConfiguration": "is of standalone tasks: the service definition decides",
    "runStandaloneTask": "tasks without a service are run by a Run Task step",
    "accessType": "is not needed: the service definition decides",
}


def read_pipecd(
    files: SourceFiles,
    values: Mapping[str, str],
    *,
    region: str = "",
    cluster: str = "",
    approver_group: str = "",
) -> ImportedProject:
    """Read an application; `region` and `cluster` replace those of the files. Raises `ImportRefused`.

    `approver_group` is the user group of WAIT_APPROVAL stages, whose approvers are people of PipeCD.
    """
    variables = EnvironmentVariables(values, TOOL, _RENDER_ADVICE)
    source = files.find_config(_CONFIG_NAMES, _CONFIG_MARKER, TOOL)
    config = parse_file(source, variables.expand(source))
    if config.value.get("kind") != KIND:
        refuse(config.name, get_line(config, ("kind",)), f"the kind must be {KIND}")
    spec = _get_mapping(config, "spec")
    inputs = _get_mapping(config, "spec", "input")
    if not inputs.get("serviceDefinitionFile"):
        message = "needs serviceDefinitionFile: without one it runs a task. Run tasks by a Run Task step"
        refuse(config.name, get_line(config, ("spec", "input")), message)
    task_file = files.get_referenced(
        inputs.get("taskDefinitionFile", _TASK_DEFINITION), config, "spec", "input", "taskDefinitionFile"
    )
    service_file = files.get_referenced(
        inputs["serviceDefinitionFile"], config, "spec", "input", "serviceDefinitionFile"
    )
    service_name = spec.get("name") if isinstance(spec.get("name"), str) else ""
    # The service definition of PipeCD may name the cluster, which the manifest of a service does not.
    named_cluster = parse_file(service_file, variables.expand(service_file)).value.get("cluster")
    definitions = read_definitions(task_file, service_file, variables, str(service_name))
    place = _parse_cluster(inputs.get("clusterArn") or named_cluster)
    definitions = _add_target_group(config, definitions)
    notices = [*_list_notices(config)]
    if routes_traffic(config):
        if not definitions.has_one_target_group:
            message = "routes traffic, which needs exactly one target group in the service definition"
            refuse(config.name, get_line(config, ("spec", "pipeline")), message)
        definitions = definitions.for_blue_green()
    steps, stage_notices = build_steps(config, approver_group, is_native=bool(definitions.native_strategy))
    referring = definitions.refer(variables)
    if definitions.controller and not routes_traffic(config):
        steps = add_controller_change(steps, referring.service_name)
    task, service = definitions.task_definition.value, definitions.service_definition.value
    return ImportedProject(
        TOOL,
        region or place[0],
        (cluster or place[1]).rpartition("/")[2],
        referring,
        steps,
        variables.list_service_variables(task, service),
        variables.list_inputs(task, service),
        (*notices, *stage_notices, *definitions.notices),
    )


def _get_mapping(config: Document, *path: str) -> Mapping[str, Any]:
    value = config.value
    for key in path:
        value = value.get(key)
        if not isinstance(value, Mapping):
            refuse(config.name, get_line(config, path), f"{'.'.join(path)} must be a mapping")
    return value


def _parse_cluster(value: Any) -> tuple[str, str]:
    """Return region and name of a cluster; a bare name has no region."""
    match = _ARN.fullmatch(value) if isinstance(value, str) else None
    return (match[1], match[2]) if match else ("", value if isinstance(value, str) else "")


def _add_target_group(config: Document, definitions: EcsDefinitions) -> EcsDefinitions:
    """Return the definitions with the primary target group of the configuration."""
    path = ("spec", "input", "targetGroups")
    groups = config.value["spec"]["input"].get("targetGroups") or {}
    primary = groups.get("primary") if isinstance(groups, Mapping) else None
    if groups and not isinstance(primary, Mapping):
        refuse(config.name, get_line(config, path), "targetGroups needs a primary with targetGroupArn")
    document = definitions.service_definition
    notices = []
    if isinstance(groups, Mapping) and groups.get("canary"):
        message = (
            "the canary target group is not part of the service definition: choose its listener rule as the "
            "stage listener of a blue/green run"
        )
        notices.append(ImportNotice(config.name, get_line(config, (*path, "canary")), message))
    balancers = document.value.get("loadBalancers")
    if primary and balancers and balancers != [primary]:
        message = "the primary target group is left out: the service definition has loadBalancers"
        notices.append(ImportNotice(config.name, get_line(config, (*path, "primary")), message))
    value = dict(document.value)
    if primary and not balancers:
        value["loadBalancers"] = [dict(primary)]
    return replace(
        definitions,
        service_definition=replace(document, value=value),
        notices=(*definitions.notices, *notices),
    )


def _list_notices(config: Document) -> Iterator[ImportNotice]:
    """Yield the settings that have no equal in Slipway."""
    spec = config.value["spec"]
    for key in spec:
        if key not in (*_READ_KEYS, *_OWN_KEYS):
            advice = _KEY_ADVICE.get(key, "is unknown and not imported")
            yield ImportNotice(config.name, get_line(config, ("spec", key)), f"{key}: {advice}")
    for key, value in spec["input"].items():
        line = get_line(config, ("spec", "input", key))
        if key == "autoRollback":
            if value is False:
                message = "autoRollback false: remove the rollback steps to keep a failed deployment"
                yield ImportNotice(config.name, line, message)
        elif key not in _READ_INPUTS:
            advice = _INPUT_ADVICE.get(key, "is unknown and not imported")
            yield ImportNotice(config.name, line, f"{key}: {advice}")
    if _is_recreating(spec.get("quickSync")):
        message = "recreate: the deployment replaces tasks in the bounds of deploymentConfiguration instead"
        yield ImportNotice(config.name, get_line(config, ("spec", "quickSync")), message)


def _is_recreating(options: Any) -> bool:
    return isinstance(options, Mapping) and bool(options.get("recreate"))
