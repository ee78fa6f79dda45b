"""Task and service definitions of another tool, converted to the manifests of a service."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

from catalog.manifests.checks import (
    TARGET_GROUP_KEY,
    CheckedManifest,
    check_manifest,
    check_with_task_definition,
    get_native_strategy,
)
from catalog.manifests.cleanup import clean_up_manifest
from catalog.manifests.documents import BadDocument, Document
from catalog.manifests.kinds import SERVICE_DEFINITION, TASK_DEFINITION
from catalog.manifests.yaml_drafts import IndentedDumper
from catalog.operations import ManifestSpec
from pipelines.imports.environment_variables import EnvironmentVariables
from pipelines.imports.source_files import (
    ImportNotice,
    SourceFile,
    get_line,
    parse_file,
    refuse,
    refuse_all,
)
from steps.expressions import has_expression

DEFAULT_TAG: Final = "latest"
_ARTIFACT_EXPRESSION: Final = "<+primary.artifact.image>"
_OTHER_CONTROLLERS: Final = ("CODE_DEPLOY", "EXTERNAL")
# Registry with port, path, then the tag.
_TAGGED_IMAGE: Final = re.compile(r"([^\s:]+(?::\d+/[^\s:]+)?):([^\s/@]+)")


@dataclass(frozen=True)
class ImportedImage:
    """The image that becomes the artifact; empty if it stays in the task definition."""

    image: str = ""
    tag: str = DEFAULT_TAG


@dataclass(frozen=True)
class EcsDefinitions:
    """The definitions of one ECS service, with what the import changed in them."""

    task_definition: Document
    service_definition: Document
    image: ImportedImage = ImportedImage()
    controller: str = ""
    """The deployment controller that was removed: CODE_DEPLOY or EXTERNAL."""
    notices: tuple[ImportNotice, ...] = ()

    @property
    def service_name(self) -> str:
        """Return the name of the ECS service."""
        return str(self.service_definition.value.get("serviceName") or "")

    @property
    def native_strategy(self) -> str:
        """Return the strategy by which ECS itself deploys; empty for ROLLING."""
        return get_native_strategy(self.service_definition.value)

    @property
    def has_one_target_group(self) -> bool:
        """Return whether blue/green can swap the target group of the service."""
        balancers = self.service_definition.value.get("loadBalancers")
        return isinstance(balancers, list) and len(balancers) == 1 and isinstance(balancers[0], Mapping)

    @property
    def manifests(self) -> list[ManifestSpec]:
        """Return both definitions as inline manifests."""
        documents = (
            ("task_definition", TASK_DEFINITION, self.task_definition),
            ("service_definition", SERVICE_DEFINITION, self.service_definition),
        )
        return [
            ManifestSpec(identifier, kind, "Inline", content=_render_manifest(document.value))
            for identifier, kind, document in documents
        ]

    def for_blue_green(self) -> "EcsDefinitions":
        """Return the definitions with the target group that a blue/green deployment chooses."""
        document, notices = self.service_definition, list(self.notices)
        value = dict(document.value)
        value["loadBalancers"] = [{**value["loadBalancers"][0], TARGET_GROUP_KEY: f"<+{TARGET_GROUP_KEY}>"}]
        configuration = value.get("deploymentConfiguration")
        if isinstance(configuration, Mapping) and configuration.get("deploymentCircuitBreaker"):
            message = (
                "deploymentCircuitBreaker is removed: a failed blue/green deployment restores the traffic"
            )
            line = get_line(document, ("deploymentConfiguration", "deploymentCircuitBreaker"))
            notices.append(ImportNotice(document.name, line, message))
            kept = {key: inner for key, inner in configuration.items() if key != "deploymentCircuitBreaker"}
            value["deploymentConfiguration"] = kept
        return replace(self, service_definition=replace(document, value=value), notices=tuple(notices))

    def refer(self, variables: EnvironmentVariables) -> "EcsDefinitions":
        """Return the definitions in which unknown environment variables are inputs of the pipeline."""
        task, service = self.task_definition, self.service_definition
        return replace(
            self,
            task_definition=replace(task, value=variables.refer(task.value)),
            service_definition=replace(service, value=variables.refer(service.value)),
        )

    def check(self) -> tuple[ImportNotice, ...]:
        """Return the warnings. Raises `ImportRefused` with what AWS would refuse."""
        task = check_manifest(TASK_DEFINITION, self.task_definition)
        service = check_manifest(SERVICE_DEFINITION, self.service_definition)
        checks = [task, service]
        if not task.problems and not service.problems:
            # Its document has the value that is sent.
            document = replace(self.service_definition, value=service.value)
            checks.append(check_with_task_definition(document, task.value))
        if problems := [*_list_notices(checks, is_warning=False)]:
            refuse_all(problems)
        return tuple(_list_notices(checks, is_warning=True))


def read_definitions(
    task_file: SourceFile, service_file: SourceFile, variables: EnvironmentVariables, service_name: str = ""
) -> EcsDefinitions:
    """Read both definitions. Raises `ImportRefused`.

    `service_name` is the name of the ECS service if its definition has none.
    """
    task, task_notices = _read_definition(TASK_DEFINITION, task_file, variables)
    service, service_notices = _read_definition(
        SERVICE_DEFINITION, service_file, variables, service_name=service_name
    )
    definitions = EcsDefinitions(task, service, notices=(*task_notices, *service_notices))
    return _take_image(_remove_controller(definitions), variables)


def _read_definition(
    kind: str, file: SourceFile, variables: EnvironmentVariables, *, service_name: str = ""
) -> tuple[Document, list[ImportNotice]]:
    text = variables.expand(file)
    document = parse_file(file, text)
    try:
        cleaned = clean_up_manifest(kind, text)
    except BadDocument as error:
        refuse(file.name, error.line, error.message)
    value = parse_file(file, cleaned.text).value
    if kind == SERVICE_DEFINITION:
        # The service of Slipway is named for it.
        line = get_line(document, ("serviceName",))
        name = variables.resolve_text(value.get("serviceName"), file.name, line) or service_name
        value = {"serviceName": name, **{key: inner for key, inner in value.items() if key != "serviceName"}}
    if any(has_expression(key) for key in _list_keys(value)):
        refuse(file.name, 1, "a template function stands in a key: only values can be variables")
    notices = [ImportNotice(file.name, 1, change) for change in cleaned.changes]
    return replace(document, value=value), notices


def _list_keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from map(str, value)
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _list_keys(inner)


def _remove_controller(definitions: EcsDefinitions) -> EcsDefinitions:
    document = definitions.service_definition
    controller = document.value.get("deploymentController")
    kind = controller.get("type") if isinstance(controller, Mapping) else None
    if kind not in _OTHER_CONTROLLERS:
        return definitions
    value = {key: inner for key, inner in document.value.items() if key != "deploymentController"}
    message = (
        f"deploymentController {kind} is removed: Slipway deploys with the controller ECS. A rolling or "
        "canary pipeline begins with a step that hands the running ECS service to ECS in place; blue/green "
        "creates services of its own"
    )
    notice = ImportNotice(document.name, get_line(document, ("deploymentController",)), message)
    return replace(
        definitions,
        service_definition=replace(document, value=value),
        controller=kind,
        notices=(*definitions.notices, notice),
    )


def _take_image(definitions: EcsDefinitions, variables: EnvironmentVariables) -> EcsDefinitions:
    """Make the image of the first essential container the artifact, whose tag each run can choose."""
    document = definitions.task_definition
    containers = document.value.get("containerDefinitions")
    number = _find_main_container(containers)
    if number is None or not isinstance(containers, list):
        return definitions
    path = ("containerDefinitions", number, "image")
    text = str(containers[number].get("image") or "")
    image, notice = _split_image(text, variables)
    if not image.image:
        return _add_notice(definitions, path, notice)
    changed = [*containers]
    changed[number] = {**containers[number], "image": _ARTIFACT_EXPRESSION}
    value = {**document.value, "containerDefinitions": changed}
    taken = replace(definitions, task_definition=replace(document, value=value), image=image)
    return _add_notice(taken, path, notice)


def _find_main_container(containers: Any) -> int | None:
    rows = containers if isinstance(containers, list) else []
    return next(
        (n for n, row in enumerate(rows) if isinstance(row, Mapping) and row.get("essential", True)), None
    )


def _split_image(text: str, variables: EnvironmentVariables) -> tuple[ImportedImage, str]:
    """Return the image and its tag, and what the person should know."""
    repository, separator, tag = text.rpartition(":")
    if separator and has_expression(tag) and variables.find_unknown(tag) and "/" not in tag:
        if variables.find_unknown(repository):
            return ImportedImage(), _describe_image_in_manifest()
        names = ", ".join(variables.find_unknown(tag))
        message = (
            f"the tag of the image is chosen at each run instead of {names}; without a choice it is "
            f"{DEFAULT_TAG}"
        )
        return ImportedImage(variables.render(repository)), message
    if variables.find_unknown(text):
        return ImportedImage(), _describe_image_in_manifest()
    match = _TAGGED_IMAGE.fullmatch(variables.render(text))
    if match is None:
        return ImportedImage(), _describe_image_in_manifest()
    return ImportedImage(
        match[1], match[2]
    ), f"the tag of the image is chosen at each run; default {match[2]}"


def _describe_image_in_manifest() -> str:
    return "the image stays in the task definition, so that a run cannot choose its tag"


def _add_notice(definitions: EcsDefinitions, path: tuple[str | int, ...], message: str) -> EcsDefinitions:
    document = definitions.task_definition
    notice = ImportNotice(document.name, get_line(document, path), message)
    return replace(definitions, notices=(*definitions.notices, notice))


def _list_notices(checks: list[CheckedManifest], *, is_warning: bool) -> Iterator[ImportNotice]:
    for check in checks:
        for problem in check.warnings if is_warning else check.problems:
            message = f"{problem.path}: {problem.message}" if problem.path else problem.message
            yield ImportNotice(problem.file, problem.line or 1, message)


def _render_manifest(value: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps(value, default=str))
    return str(yaml.dump(plain, Dumper=IndentedDumper, sort_keys=False, allow_unicode=True, width=4096))
