"""Inputs of a step: manifests, programs, image and values for expressions."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aws.errors import NotFound, Undelivered
from catalog.artifacts.image_sources import describe_image, get_newest_tag
from catalog.manifests import fetching
from catalog.manifests.checks import ManifestProblem, check_manifest, check_with_task_definition
from catalog.manifests.cloudformation_templates import render_template
from catalog.manifests.documents import BadDocument, Document
from catalog.manifests.kinds import RUN_TASK_REQUEST, SERVICE_DEFINITION, TASK_DEFINITION
from catalog.manifests.layers import MergedDocument, merge_layers_of_kind
from catalog.manifests.locations import format_manifest_name, read_layers
from catalog.manifests.stores import (
    TASK_DEFINITION_ARN,
    StoreError,
    describe_arn_problem,
    fetch_documents,
    get_store_title,
)
from delegates.access.images import fetch_all_tags, parse_digest
from delegates.access.remedies import find_site_remedy
from deployments.engine.steps.manifest_policies import check_image_policies, check_manifest_policies
from deployments.execution.planning.stored_inputs import load_texts, load_texts_by_path
from deployments.models import Execution, StageExecution, StepExecution
from guards.limits import REGISTRY_TAGS
from pipelines.definition.step_manifests import list_frozen_sources
from steps.actions.base import ActionFailed
from steps.actions.context import LoadedManifest, LoadedTemplate, ManifestSource
from steps.actions.non_aws_calls import DELEGATE_SERVICE, FETCH_FILES, FIND_DIGEST, LIST_TAGS
from steps.expressions import BadExpressionError, format_value, get_path_value, resolve_expressions
from steps.kinds.registry import get_step_kinds
from steps.states import Status

if TYPE_CHECKING:
    from deployments.engine.steps.context import EngineStepContext
SiteCall = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Function that makes a call by operation and parameters. Raises `AwsError`."""


def needs_digest(artifact: Mapping[str, Any]) -> bool:
    """Return whether the image of a run has a source and no digest yet."""
    return bool(artifact.get("source")) and not artifact.get("digest")


def resolve_image(artifact: Mapping[str, Any], call_site: SiteCall) -> dict[str, Any]:
    """Return the image with tag and digest. Raises `ActionFailed`, and the errors of `call_site`."""
    source = artifact["source"]
    if source.get("connector_id") is None:
        raise ActionFailed(
            "CONNECTOR_MISSING",
            f"The image {artifact['image']} uses the connector {source['connector']}, which does not exist. "
            "Create it or change the service's artifact, then run again.",
        )
    params = {"connector": source["connector_id"], "repository": source["imagePath"]}
    if source.get("region"):
        params["region"] = source["region"]
    try:
        tag = artifact["tag"] or _find_newest_tag(source, params, call_site)
        digest = parse_digest(call_site(FIND_DIGEST, {**params, "tag": tag}))
    except (NotFound, Undelivered) as problem:
        image = f"{source['imagePath']}:{artifact['tag'] or source.get('tagPattern')}"
        reason = f"{problem.display_message} {find_site_remedy(problem.display_message)}".strip()
        raise ActionFailed(
            "IMAGE_NOT_FOUND",
            f"The image {image} was not found by the connector {source['connector']}: {reason}",
        ) from problem
    if not digest:
        raise ActionFailed(
            "IMAGE_NOT_FOUND",
            f"The connector {source['connector']} returned no digest for {source['imagePath']}:{tag}. Check "
            "that its URL is that of a registry, then run again.",
        )
    return {**artifact, "tag": tag, "digest": digest}


def _find_newest_tag(source: Mapping[str, Any], params: dict[str, Any], call_site: SiteCall) -> str:
    pattern = source.get("tagPattern", "")
    location = {"image": params["repository"], "region": params.get("region", "")}
    tags = fetch_all_tags(
        lambda call_params: call_site(LIST_TAGS, call_params), **location, connector=params["connector"]
    )
    tag = get_newest_tag(tags.names, pattern)
    # A cut list proves that a tag exists, but not that no tag is higher.
    if tags.is_cut and tag != pattern:
        raise ActionFailed(
            "IMAGE_NOT_FOUND",
            f"{source['imagePath']} has more than {REGISTRY_TAGS}, so the highest one that matches {pattern} "
            "is unknown. Choose a tag, or delete old tags from the repository, then run again.",
        )
    if tag:
        return tag
    raise ActionFailed(
        "IMAGE_NOT_FOUND", f"No tag of {source['imagePath']} matches {pattern}. Choose a tag, then run again."
    )


def get_provisioner_outputs(stage: StageExecution, steps: Iterable[StepExecution]) -> dict[str, Any]:
    """Return the values of `<+provisioner.NAME>`: the outputs of the stage's succeeded provisioning steps.

    The later step's output replaces one of the same name.
    """
    outputs: dict[str, Any] = {}
    provisioning_steps = [
        candidate for candidate in steps if candidate.stage_id == stage.pk and is_provisioning_step(candidate)
    ]
    for step in sorted(provisioning_steps, key=lambda candidate: candidate.position):
        if step.status == Status.SUCCESS:
            outputs |= step.all_outputs
    return outputs


def is_provisioning_step(step: StepExecution) -> bool:
    """Return whether a step is a forward step that creates infrastructure."""
    kind = get_step_kinds().get(step.type)
    return kind is not None and kind.provisions and step.section == StepExecution.Section.EXECUTION


MOST_PROBLEMS = 20
NEEDS_DEFINITION = (SERVICE_DEFINITION, RUN_TASK_REQUEST)
SourceRows = Sequence[Mapping[str, Any]]
Steps = Sequence[StepExecution]


def to_json(value: Mapping[str, Any]) -> str:
    """Return a mapping as text for an encrypted column."""
    return json.dumps(value, default=str)


def list_sources(stage: StageExecution, kind: str, own: SourceRows = ()) -> tuple[ManifestSource, ...]:
    """Return the pinned locations of the manifests of this kind; `own` are a step's."""
    return tuple(
        ManifestSource(format_manifest_name(source), get_store_title(source["store"]), tuple(source["paths"]))
        for source in _filter_by_kind(_select_rows(stage, kind, own), kind)
    )


def load_manifests(
    execution: Execution,
    stage: StageExecution,
    kind: str,
    outputs: Mapping[str, Any],
    own: SourceRows = (),
    steps: Steps | None = None,
) -> tuple[LoadedManifest, ...]:
    """Fetch, resolve and validate the manifests of a kind with their overrides, in the service's order.

    Expressions may name `outputs` of the step; `own` are the manifests of the step itself. Raises
    `ActionFailed` with every problem, each naming file and line.
    """
    values = {**build_expression_values(execution, stage, steps), **outputs}
    rows = _select_rows(stage, kind, own)
    if arn := _get_task_definition_arn(rows, kind):
        return (LoadedManifest({"taskDefinitionArn": _resolve_arn(arn, values)}, paths=(), warnings=()),)
    return tuple(
        _validate_manifest(execution, rows, kind, document, values)
        for document in _read_manifests(execution, rows, kind, values)
    )


def load_template(
    execution: Execution,
    stage: StageExecution,
    kind: str,
    outputs: Mapping[str, Any],
    own: SourceRows,
    steps: Steps | None = None,
) -> LoadedTemplate:
    """Fetch a step's template and resolve its expressions. Raises `ActionFailed`."""
    values = {**build_expression_values(execution, stage, steps), **outputs}
    try:
        document = fetch_documents(load_texts(_filter_by_kind(own, kind))[0], execution.scope)[0]
        text = render_template(document.text, lambda text: format_value(resolve_expressions(text, values)))
    except StoreError as error:
        raise ActionFailed("MANIFEST_MISSING", str(error)) from error
    except BadDocument as bad:
        raise ActionFailed("BAD_TEMPLATE", str(bad)) from bad
    except BadExpressionError as bad:
        raise ActionFailed("UNKNOWN_EXPRESSION", f"{document.name}: {bad.message}") from bad
    return LoadedTemplate(document.name, text)


def _select_rows(stage: StageExecution, kind: str, own: SourceRows) -> SourceRows:
    """Return the manifest rows to use: a step's own instead of the service's."""
    return own if has_own_manifest(own, kind) else stage.sources


def has_own_manifest(own: SourceRows, kind: str) -> bool:
    """Return whether a step has its own manifest of this kind."""
    return bool(_filter_by_kind(own, kind))


def _get_task_definition_arn(rows: SourceRows, kind: str) -> str:
    """Return the ARN of a registered task definition if the service names one."""
    definitions = _filter_by_kind(rows, kind)
    is_arn = kind == TASK_DEFINITION and bool(definitions) and definitions[0]["store"] == TASK_DEFINITION_ARN
    return str(definitions[0]["content"]) if is_arn else ""


def _resolve_arn(arn: str, values: Mapping[str, Any]) -> Any:
    try:
        resolved = resolve_expressions(arn, values)
    except BadExpressionError as bad:
        raise ActionFailed("UNKNOWN_EXPRESSION", f"task definition ARN: {bad.message}") from bad
    if problem := describe_arn_problem(str(resolved)):
        raise ActionFailed("BAD_MANIFEST", f"The task definition ARN {resolved!r} {problem}")
    return resolved


def _filter_by_kind(rows: SourceRows, kind: str) -> list[Mapping[str, Any]]:
    return [source for source in rows if source["kind"] == kind]


def _validate_manifest(
    execution: Execution, rows: SourceRows, kind: str, merged: MergedDocument, values: Mapping[str, Any]
) -> LoadedManifest:
    result = check_manifest(kind, merged.document)
    problems = list(result.problems)
    task_definition = (
        _read_task_definition(execution, rows, values) if kind in NEEDS_DEFINITION and not problems else {}
    )
    if task_definition:
        problems += check_with_task_definition(merged.document, task_definition).problems
    if problems:
        raise ActionFailed("BAD_MANIFEST", _format_problems(problems))
    return LoadedManifest(
        value=result.value,
        paths=tuple(path for layer in merged.layers for path in layer.paths),
        warnings=tuple(str(warning) for warning in result.warnings),
        overrides=tuple(f"{layer.identifier} of the {layer.level}" for layer in merged.layers[1:]),
    )


def _read_manifests(
    execution: Execution, rows: SourceRows, kind: str, values: Mapping[str, Any]
) -> tuple[MergedDocument, ...]:
    """Return the manifests of a kind with their overrides and resolved expressions."""
    try:
        layers = read_layers(
            kind,
            load_texts(_filter_by_kind(rows, kind)),
            execution.scope,
            lambda document: document.with_value(_resolve_document(document, values)),
        )
        return merge_layers_of_kind(kind, layers)
    except StoreError as error:
        raise ActionFailed("MANIFEST_MISSING", str(error)) from error
    except BadDocument as bad:
        raise ActionFailed("BAD_MANIFEST", str(bad)) from bad


def _read_task_definition(
    execution: Execution, rows: SourceRows, values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the task definition of a service definition; its own problems were reported before."""
    rows_of_kind = _filter_by_kind(rows, TASK_DEFINITION)
    if not rows_of_kind or rows_of_kind[0]["store"] == TASK_DEFINITION_ARN:
        return {}
    value = _read_manifests(execution, rows, TASK_DEFINITION, values)[0].document.value
    return value if isinstance(value, Mapping) else {}


def build_expression_values(
    execution: Execution, stage: StageExecution, steps: Steps | None = None
) -> dict[str, Any]:
    """Return the values available to expressions at this point of the execution.

    `steps` are the loaded steps of this stage and earlier ones, if any.
    """
    artifact = build_artifact_values(execution)
    step_rows = _list_steps(execution, stage) if steps is None else list(steps)
    outputs = {step.identifier: {"output": step.all_outputs} for step in step_rows}
    return {
        **_add_secret_variables(stage.values, execution.secret_input_values),
        "primary": {"artifact": artifact},
        "artifact": artifact,
        "steps": outputs,
        "execution": {"steps": outputs, "id": str(execution.pk)},
        "provisioner": get_provisioner_outputs(stage, step_rows),
    }


def build_artifact_values(execution: Execution) -> dict[str, str]:
    """Return the values of the deployed image for expressions."""
    image, tag = execution.artifact.get("image", ""), execution.artifact.get("tag", "")
    values = {"image": f"{image}:{tag}", "imagePath": image, "tag": tag}
    if digest := execution.artifact.get("digest"):
        values |= {"digest": digest, "imageWithDigest": f"{image}@{digest}"}
    return values


def _add_secret_variables(
    values: Mapping[str, Any], secret_variables: Mapping[str, str]
) -> Mapping[str, Any]:
    """Return the values of a stage with its secret variables, which no row of it stores."""
    if not secret_variables:
        return values
    pipeline = values.get("pipeline", {})
    return {
        **values,
        "variables": {**secret_variables, **values.get("variables", {})},
        "pipeline": {**pipeline, "variables": {**pipeline.get("variables", {}), **secret_variables}},
    }


def resolve_value(path: str, values: Mapping[str, Any]) -> Any:
    """Return the value of one expression. Raises `ActionFailed` if it is unknown."""
    try:
        return get_path_value(path, values)
    except BadExpressionError as bad:
        raise ActionFailed("UNKNOWN_EXPRESSION", bad.message) from bad


def _list_steps(execution: Execution, stage: StageExecution) -> list[StepExecution]:
    """Return the steps for expressions; of two with the same name the nearest stage's counts."""
    rows = StepExecution.objects.filter(stage__execution=execution, stage__position__lte=stage.position)
    return list(rows.order_by("stage__position", "section", "position"))


def _resolve_document(document: Document, values: Mapping[str, Any]) -> Any:
    try:
        return resolve_expressions(document.value, values)
    except BadExpressionError as bad:
        line = document.get_line(bad.where)
        raise ActionFailed("UNKNOWN_EXPRESSION", f"{document.name}, line {line}: {bad.message}") from bad


def _format_problems(problems: Sequence[ManifestProblem]) -> str:
    lines = [str(problem) for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        lines.append(f"and {len(problems) - MOST_PROBLEMS} more")
    return "\n".join(lines)


SourceRow = dict[str, Any]


class EngineStepInputs:
    """Manifests, programs and the image of one phase; pinned values are written with the phase."""

    def __init__(self, context: "EngineStepContext") -> None:
        self._context = context
        self._reconcile_context = context.reconcile_context
        self._visited: set[str] = set()

    def list_sources(self, kind: str) -> tuple[ManifestSource, ...]:
        return list_sources(self._reconcile_context.stage, kind, self._own)

    def load_manifest(self, kind: str) -> LoadedManifest:
        return self.load_manifests(kind)[0]

    def load_manifests(self, kind: str) -> tuple[LoadedManifest, ...]:
        self._pin_inputs(kind)
        self._log_sources(kind)
        outputs = self._context.get_outputs()
        reconcile_context = self._reconcile_context
        manifests = load_manifests(
            reconcile_context.execution, reconcile_context.stage, kind, outputs, self._own, self._steps
        )
        self._check_policies(kind, manifests)
        return manifests

    def load_template(self, kind: str) -> LoadedTemplate:
        self._fetch_sources(kind)
        self._log_sources(kind)
        outputs = self._context.get_outputs()
        reconcile_context = self._reconcile_context
        return load_template(
            reconcile_context.execution, reconcile_context.stage, kind, outputs, self._own, self._steps
        )

    def load_program_files(self, kind: str) -> dict[str, str]:
        self._pin_inputs(kind)
        self._log_sources(kind)
        return load_texts_by_path(self._own, kind)

    def _check_policies(self, kind: str, manifests: Sequence[LoadedManifest]) -> None:
        """Check what is about to be deployed; a rollback is never refused."""
        context, reconcile_context = self._context, self._reconcile_context
        if not self._is_forward or not self._is_first(f"policies {kind}"):
            return
        messages = check_manifest_policies(
            reconcile_context.execution, reconcile_context.stage, kind, manifests
        )
        action = context.row.pk
        if messages and context.save_for_rollback(f"warned {kind}", action) == action:
            for message in messages:
                context.log(message, "warning")

    @property
    def _is_forward(self) -> bool:
        return bool(self._context.step.section == StepExecution.Section.EXECUTION)

    @property
    def _own(self) -> tuple[SourceRow, ...]:
        """Return the manifests of the step itself."""
        return list_frozen_sources(self._context.step.type, self._context.step.spec)

    @property
    def _steps(self) -> list[StepExecution]:
        return self._reconcile_context.rows.list_steps_until(self._reconcile_context.stage)

    def _pin_inputs(self, kind: str) -> None:
        """Pin the image and fetch remote files; files fetched before stay."""
        self._pin_artifact()
        self._fetch_sources(kind)

    def _select_rows(self, kind: str) -> Sequence[SourceRow]:
        """Return the manifest rows to use: a step's own instead of the service's."""
        return self._own if has_own_manifest(self._own, kind) else self._reconcile_context.stage.sources

    def _fetch_sources(self, kind: str) -> None:
        is_own = has_own_manifest(self._own, kind)
        rows = self._select_rows(kind)
        if not is_own:
            for number, row in fetching.read_local_files(rows, kind, self._reconcile_context.execution.scope):
                self._reconcile_context.pin_source(number, row)
        name = self._get_key("fetches", kind)
        groups = self._context.load_for_rollback(name) or fetching.group_by_location(rows, kind)
        if not groups or not self._is_first(name):
            return
        # After a crash the phase makes the same calls again, although the files are stored by then.
        self._context.save_for_rollback(name, groups)
        fetched_rows = self._fetch_groups(rows, groups, is_own=is_own)
        for line in dict.fromkeys(fetching.describe_fetch(row) for row in fetched_rows):
            self._context.log(line)

    def _fetch_groups(
        self, rows: Sequence[SourceRow], groups: list[list[int]], *, is_own: bool
    ) -> list[SourceRow]:
        """Fetch the files and return the pinned manifests."""
        values = {
            **self._reconcile_context.build_values(),
            **self._context.get_outputs(),
        }
        fetched_rows = fetching.fetch_groups(
            rows, groups, values, lambda params: self._call_site(FETCH_FILES, params)
        )
        step = self._context.step
        return [
            self._reconcile_context.pin_own_source(step, row)
            if is_own
            else self._reconcile_context.pin_source(number, row)
            for number, row in fetched_rows
        ]

    def _log_sources(self, kind: str) -> None:
        """Log the version of the files once per step."""
        action = self._context.row.pk
        if (
            not self._is_first(f"logs {kind}")
            or self._context.save_for_rollback(f"logged {kind}", action) != action
        ):
            return
        lines = (fetching.describe_version(row) for row in self._select_rows(kind) if row["kind"] == kind)
        for line in dict.fromkeys(lines):
            if line:
                self._context.log(line)

    def _pin_artifact(self) -> None:
        """Pin tag and digest of the image, once per execution."""
        name = self._get_key("pins")
        artifact_row = self._context.load_for_rollback(name) or self._reconcile_context.execution.artifact
        if needs_digest(artifact_row) and self._is_first(name):
            artifact = resolve_image(self._context.save_for_rollback(name, artifact_row), self._call_site)
            self._check_image(artifact)
            self._reconcile_context.pin_artifact(artifact)
            self._context.log(describe_image(artifact))

    def _check_image(self, artifact: Mapping[str, Any]) -> None:
        """Check the rules for runs on the image before it is pinned; a rollback is never refused."""
        execution = self._reconcile_context.execution
        if self._is_forward and not execution.artifact.get("digest"):
            for message in check_image_policies(execution, artifact):
                self._context.log(message, "warning")

    def _call_site(self, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        return self._context.caller.call(DELEGATE_SERVICE, operation, params)

    def _get_key(self, purpose: str, kind: str = "") -> str:
        """Return the rollback key of a fetch in this attempt of the action."""
        return f"{purpose} {self._context.row.pk}.{self._context.attempt} {kind}".strip()

    def _is_first(self, key: str) -> bool:
        """Return whether this phase uses the key for the first time."""
        is_first = key not in self._visited
        self._visited.add(key)
        return is_first
