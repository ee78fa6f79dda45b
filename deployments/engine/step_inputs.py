"""Inputs of a step: manifests, programs, image and values for expressions."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aws.errors import NotFound, Undelivered
from catalog.artifacts.image_sources import get_newest_tag
from catalog.manifests import fetching
from catalog.manifests.checks import ManifestProblem, check_manifest, check_with_task_definition
from catalog.manifests.cloudformation_templates import render_template
from catalog.manifests.documents import BadDocument, Document
from catalog.manifests.fetching import NOT_KEPT, FetchRow, describe_earlier_run, describe_fetch
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
from deployments.execution.stored_inputs import load_texts, texts_by_path
from deployments.models import Execution, StageExecution, StepExecution
from pipelines.definition.step_manifests import list_frozen_sources
from steps.actions.base import ActionFailed
from steps.actions.context import LoadedManifest, LoadedTemplate, ManifestSource
from steps.actions.non_aws_calls import DELEGATE_SERVICE, FETCH_FILES, FIND_DIGEST, LIST_TAGS
from steps.expressions import BadExpressionError, format_value, get_path_value, resolve_expressions
from steps.kinds.registry import get_step_kinds
from steps.states import Status

if TYPE_CHECKING:
    from deployments.engine.step_context import EngineStepContext
SiteCall = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Does an errand by its name. Raises `AwsError`."""


def needs_digest(artifact: Mapping[str, Any]) -> bool:
    """Return whether the image of a run has a source and no digest yet."""
    return bool(artifact.get("source")) and not artifact.get("digest")


def resolve_image(artifact: Mapping[str, Any], errand: SiteCall) -> dict[str, Any]:
    """Return the image with its tag and its digest. Raises `ActionFailed`, and what `errand` raises."""
    source = artifact["source"]
    if source.get("connector_id") is None:
        raise ActionFailed(
            "CONNECTOR_MISSING",
            f"The image {artifact['image']} names the connector {source['connector']}, which is not there. "
            "Make it, or change the service's artifact, and run again.",
        )
    asked = {"connector": source["connector_id"], "repository": source["imagePath"]}
    if source.get("region"):
        asked["region"] = source["region"]
    try:
        tag = artifact["tag"] or _find_newest_tag(source, asked, errand)
        digest = parse_digest(errand(FIND_DIGEST, {**asked, "tag": tag}))
    except (NotFound, Undelivered) as problem:
        image = f"{source['imagePath']}:{artifact['tag'] or source.get('tagPattern')}"
        said = f"{problem.display_message} {find_site_remedy(problem.display_message)}".strip()
        raise ActionFailed(
            "IMAGE_NOT_FOUND",
            f"The image {image} was not found by the connector {source['connector']}: {said}",
        ) from problem
    if not digest:
        raise ActionFailed(
            "IMAGE_NOT_FOUND",
            f"The connector {source['connector']} gave no digest for {source['imagePath']}:{tag}: look "
            "whether its URL is that of a registry, and run again.",
        )
    return {**artifact, "tag": tag, "digest": digest}


def _find_newest_tag(source: Mapping[str, Any], asked: dict[str, Any], errand: SiteCall) -> str:
    pattern = source.get("tagPattern", "")
    where = {"image": asked["repository"], "region": asked.get("region", "")}
    found = fetch_all_tags(lambda now: errand(LIST_TAGS, now), **where, connector=asked["connector"])
    if tag := get_newest_tag(found.names, pattern):
        return tag
    raise ActionFailed(
        "IMAGE_NOT_FOUND", f"No tag of {source['imagePath']} matches {pattern}: choose a tag, and run again."
    )


def get_provisioner_outputs(stage: StageExecution, steps: Iterable[StepExecution]) -> dict[str, Any]:
    """What `<+provisioner.NAME>` comes to in a stage: the outputs of its provisioning steps that succeeded.

    Where two have one of the same name, the later step's counts.
    """
    found: dict[str, Any] = {}
    mine = [one for one in steps if one.stage_id == stage.pk and is_provisioning_step(one)]
    for step in sorted(mine, key=lambda one: one.position):
        if step.status == Status.SUCCESS:
            found |= step.all_outputs
    return found


def is_provisioning_step(step: StepExecution) -> bool:
    """Return whether a step is one that goes forward and makes infrastructure."""
    kind = get_step_kinds().get(step.type)
    return kind is not None and kind.provisions and step.section == StepExecution.Section.EXECUTION


MOST_PROBLEMS = 20
NEEDS_DEFINITION = (SERVICE_DEFINITION, RUN_TASK_REQUEST)
SourceRows = Sequence[Mapping[str, Any]]
Steps = Sequence[StepExecution]


def to_json(value: Mapping[str, Any]) -> str:
    """Return a mapping as the text that an encrypted column keeps."""
    return json.dumps(value, default=str)


def list_sources(stage: StageExecution, kind: str, own: SourceRows = ()) -> tuple[ManifestSource, ...]:
    """Where the manifests of this kind lie, as frozen when the execution started; `own` are a step's."""
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
    """As `load`, every manifest of a kind, in the order of the service."""
    known = {**build_expression_values(execution, stage, steps), **outputs}
    rows = _select_rows(stage, kind, own)
    if arn := _get_task_definition_arn(rows, kind):
        return (LoadedManifest({"taskDefinitionArn": _resolve_arn(arn, known)}, paths=(), warnings=()),)
    return tuple(
        _validate_manifest(execution, rows, kind, one, known) for one in _read(execution, rows, kind, known)
    )


def load_template(
    execution: Execution,
    stage: StageExecution,
    kind: str,
    outputs: Mapping[str, Any],
    own: SourceRows,
    steps: Steps | None = None,
) -> LoadedTemplate:
    """Fetch a template that a step brings, with its expressions filled in. Raises `ActionFailed`."""
    known = {**build_expression_values(execution, stage, steps), **outputs}
    try:
        document = fetch_documents(load_texts(_filter_by_kind(own, kind))[0], execution.scope)[0]
        text = render_template(document.text, lambda text: format_value(resolve_expressions(text, known)))
    except StoreError as error:
        raise ActionFailed("MANIFEST_MISSING", str(error)) from error
    except BadDocument as bad:
        raise ActionFailed("BAD_TEMPLATE", str(bad)) from bad
    except BadExpressionError as bad:
        raise ActionFailed("UNKNOWN_EXPRESSION", f"{document.name}: {bad.message}") from bad
    return LoadedTemplate(document.name, text)


def _select_rows(stage: StageExecution, kind: str, own: SourceRows) -> SourceRows:
    """Where a manifest is looked for: a step's own go with each other, not with those of the service."""
    return own if has_own_manifest(own, kind) else stage.sources


def has_own_manifest(own: SourceRows, kind: str) -> bool:
    """Return whether a step brings a manifest of this kind itself."""
    return bool(_filter_by_kind(own, kind))


def _get_task_definition_arn(rows: SourceRows, kind: str) -> str:
    """Return the ARN of a task definition that AWS has already, where the service names one."""
    found = _filter_by_kind(rows, kind)
    by_arn = kind == TASK_DEFINITION and bool(found) and found[0]["store"] == TASK_DEFINITION_ARN
    return str(found[0]["content"]) if by_arn else ""


def _resolve_arn(arn: str, known: Mapping[str, Any]) -> Any:
    try:
        filled = resolve_expressions(arn, known)
    except BadExpressionError as bad:
        raise ActionFailed("UNKNOWN_EXPRESSION", f"task definition ARN: {bad.message}") from bad
    if problem := describe_arn_problem(str(filled)):
        raise ActionFailed("BAD_MANIFEST", f"The task definition ARN {filled!r} {problem}")
    return filled


def _filter_by_kind(rows: SourceRows, kind: str) -> list[Mapping[str, Any]]:
    return [source for source in rows if source["kind"] == kind]


def _validate_manifest(
    execution: Execution, rows: SourceRows, kind: str, one: MergedDocument, known: Mapping[str, Any]
) -> LoadedManifest:
    checked = check_manifest(kind, one.document)
    found = list(checked.problems)
    beside = _task_definition(execution, rows, known) if kind in NEEDS_DEFINITION and not found else {}
    if beside:
        found += check_with_task_definition(one.document, beside).problems
    if found:
        raise ActionFailed("BAD_MANIFEST", _as_text(found))
    return LoadedManifest(
        value=checked.value,
        paths=tuple(path for layer in one.layers for path in layer.paths),
        warnings=tuple(str(warning) for warning in checked.warnings),
        overrides=tuple(f"{layer.identifier} of the {layer.level}" for layer in one.layers[1:]),
    )


def _read(
    execution: Execution, rows: SourceRows, kind: str, known: Mapping[str, Any]
) -> tuple[MergedDocument, ...]:
    """Return the manifests of a kind with their overrides, expressions filled in."""
    try:
        layers = read_layers(
            kind,
            load_texts(_filter_by_kind(rows, kind)),
            execution.scope,
            lambda document: document.with_value(_resolve_document(document, known)),
        )
        return merge_layers_of_kind(kind, layers)
    except StoreError as error:
        raise ActionFailed("MANIFEST_MISSING", str(error)) from error
    except BadDocument as bad:
        raise ActionFailed("BAD_MANIFEST", str(bad)) from bad


def _task_definition(execution: Execution, rows: SourceRows, known: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the task definition beside a service definition; its own mistakes were told before."""
    found = _filter_by_kind(rows, TASK_DEFINITION)
    if not found or found[0]["store"] == TASK_DEFINITION_ARN:
        return {}
    value = _read(execution, rows, TASK_DEFINITION, known)[0].document.value
    return value if isinstance(value, Mapping) else {}


def build_expression_values(
    execution: Execution, stage: StageExecution, steps: Steps | None = None
) -> dict[str, Any]:
    """Everything that an expression can name at this point of the execution.

    `steps` are those of this stage and of the stages before it, where they are loaded.
    """
    artifact = build_artifact_values(execution)
    rows = _list_steps(execution, stage) if steps is None else list(steps)
    outputs = {step.identifier: {"output": step.all_outputs} for step in rows}
    return {
        **_with_secrets(stage.values, execution.secret_input_values),
        "primary": {"artifact": artifact},
        "artifact": artifact,
        "steps": outputs,
        "execution": {"steps": outputs, "id": str(execution.pk)},
        "provisioner": get_provisioner_outputs(stage, rows),
    }


def build_artifact_values(execution: Execution) -> dict[str, str]:
    """What an expression can name of the image that is deployed."""
    image, tag = execution.artifact.get("image", ""), execution.artifact.get("tag", "")
    found = {"image": f"{image}:{tag}", "imagePath": image, "tag": tag}
    if digest := execution.artifact.get("digest"):
        found |= {"digest": digest, "imageWithDigest": f"{image}@{digest}"}
    return found


def _with_secrets(values: Mapping[str, Any], hidden: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the values of a stage with the variables that are secrets, which no row of it holds."""
    if not hidden:
        return values
    pipeline = values.get("pipeline", {})
    return {
        **values,
        "variables": {**hidden, **values.get("variables", {})},
        "pipeline": {**pipeline, "variables": {**pipeline.get("variables", {}), **hidden}},
    }


def resolve_value(path: str, known: Mapping[str, Any]) -> Any:
    """What one expression comes to now. Raises `ActionFailed` where it names nothing."""
    try:
        return get_path_value(path, known)
    except BadExpressionError as bad:
        raise ActionFailed("UNKNOWN_EXPRESSION", bad.message) from bad


def _list_steps(execution: Execution, stage: StageExecution) -> list[StepExecution]:
    """Return the steps that can be named: where two stages have one of the same name, the nearest stage's."""
    rows = StepExecution.objects.filter(stage__execution=execution, stage__position__lte=stage.position)
    return list(rows.order_by("stage__position", "section", "position"))


def _resolve_document(document: Document, known: Mapping[str, Any]) -> Any:
    try:
        return resolve_expressions(document.value, known)
    except BadExpressionError as bad:
        line = document.get_line(bad.where)
        raise ActionFailed("UNKNOWN_EXPRESSION", f"{document.name}, line {line}: {bad.message}") from bad


def _as_text(problems: Sequence[ManifestProblem]) -> str:
    shown = [str(problem) for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        shown.append(f"and {len(problems) - MOST_PROBLEMS} more")
    return "\n".join(shown)


# How many files one line of the log lists.
MOST_FILES = 10


def describe_version(row: FetchRow) -> str:
    """What the log says of a manifest that the run has by now: its version, and which run read it first."""
    if NOT_KEPT in row:
        return (
            f"The files of {row['identifier']} were not kept by #{row[NOT_KEPT]}: using them as they are now"
        )
    then = describe_earlier_run(row)
    if fetching.is_versioned(row):
        versions = row.get("versions") or {}
        if not versions and not then:
            return ""
        files = [f"version {version} of {name}" for name, version in list(versions.items())[:MOST_FILES]]
        more = [f"{len(versions) - MOST_FILES} more"] if len(versions) > MOST_FILES else []
        said = " and ".join([*files, *more]) or f"the files of {row['identifier']}"
        return f"Using {said}{then}"
    return f"{describe_fetch(row)}{then}" if then else ""


SourceRow = dict[str, Any]


class EngineStepInputs:
    """The manifests, programs and the image of one run of one phase; what it pins is written with that."""

    def __init__(self, context: "EngineStepContext") -> None:
        self._context = context
        self._reconcile_context = context.reconcile_context
        self._begun: set[str] = set()

    def list_sources(self, kind: str) -> tuple[ManifestSource, ...]:
        return list_sources(self._reconcile_context.stage, kind, self._own)

    def load_manifest(self, kind: str) -> LoadedManifest:
        return self.load_manifests(kind)[0]

    def load_manifests(self, kind: str) -> tuple[LoadedManifest, ...]:
        self._bring_in(kind)
        self._log_sources(kind)
        outputs = self._context.get_outputs()
        reconcile_context = self._reconcile_context
        return load_manifests(
            reconcile_context.execution, reconcile_context.stage, kind, outputs, self._own, self._steps
        )

    def load_template(self, kind: str) -> LoadedTemplate:
        self._fetch_in(kind)
        self._log_sources(kind)
        outputs = self._context.get_outputs()
        reconcile_context = self._reconcile_context
        return load_template(
            reconcile_context.execution, reconcile_context.stage, kind, outputs, self._own, self._steps
        )

    def load_program_files(self, kind: str) -> dict[str, str]:
        self._bring_in(kind)
        self._log_sources(kind)
        return texts_by_path(self._own, kind)

    @property
    def _own(self) -> tuple[SourceRow, ...]:
        """What the step brings itself."""
        return list_frozen_sources(self._context.step.type, self._context.step.spec)

    @property
    def _steps(self) -> list[StepExecution]:
        return self._reconcile_context.rows.steps_until(self._reconcile_context.stage)

    def _bring_in(self, kind: str) -> None:
        """Settle the image, and fetch what lies elsewhere; what was fetched before stays as it is."""
        self._pin_artifact()
        self._fetch_in(kind)

    def _rows(self, kind: str) -> Sequence[SourceRow]:
        """Where manifests of a kind are looked for: what a step brings itself goes before the service's."""
        return self._own if has_own_manifest(self._own, kind) else self._reconcile_context.stage.sources

    def _fetch_in(self, kind: str) -> None:
        is_own = has_own_manifest(self._own, kind)
        rows = self._rows(kind)
        if not is_own:
            for number, row in fetching.read_local_files(rows, kind, self._reconcile_context.execution.scope):
                self._reconcile_context.pin(number, row)
        name = self._name("fetches", kind)
        groups = self._context.load_for_rollback(name) or fetching.group_by_location(rows, kind)
        if not groups or not self._is_first(name):
            return
        # So that a run after a death makes the same calls, although the texts are there by then.
        self._context.save_for_rollback(name, groups)
        kept = self._fetched(rows, groups, is_own=is_own)
        for line in dict.fromkeys(fetching.describe_fetch(row) for row in kept):
            self._context.log(line)

    def _fetched(
        self, rows: Sequence[SourceRow], groups: list[list[int]], *, is_own: bool
    ) -> list[SourceRow]:
        """Return the manifests with their texts, as the run goes on with them."""
        known = {
            **self._reconcile_context.known_values(),
            **self._context.get_outputs(),
        }
        came = fetching.fetch_groups(rows, groups, known, lambda asked: self._errand(FETCH_FILES, asked))
        step = self._context.step
        return [
            self._reconcile_context.pin_own(step, row) if is_own else self._reconcile_context.pin(number, row)
            for number, row in came
        ]

    def _log_sources(self, kind: str) -> None:
        """Say once in a step which version of the files it works with."""
        action = self._context.row.pk
        if (
            not self._is_first(f"tells {kind}")
            or self._context.save_for_rollback(f"told {kind}", action) != action
        ):
            return
        said = (describe_version(row) for row in self._rows(kind) if row["kind"] == kind)
        for line in dict.fromkeys(said):
            if line:
                self._context.log(line)

    def _pin_artifact(self) -> None:
        """Settle tag and digest of the image, once for the execution."""
        name = self._name("pins")
        found = self._context.load_for_rollback(name) or self._reconcile_context.execution.artifact
        if needs_digest(found) and self._is_first(name):
            artifact = resolve_image(self._context.save_for_rollback(name, found), self._errand)
            self._reconcile_context.pin_artifact(artifact)
            image = f"{artifact['image']}:{artifact['tag']}"
            self._context.log(f"The image {image} has the digest {artifact['digest']}")

    def _errand(self, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        return self._context.caller.call(DELEGATE_SERVICE, operation, params)

    def _name(self, what: str, kind: str = "") -> str:
        """Return the rollback key of a fetch in this attempt of the action."""
        return f"{what} {self._context.row.pk}.{self._context.attempt} {kind}".strip()

    def _is_first(self, name: str) -> bool:
        """Return whether this run of the phase comes here for the first time."""
        is_first = name not in self._begun
        self._begun.add(name)
        return is_first
