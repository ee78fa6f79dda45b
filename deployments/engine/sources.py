"""The manifests of a stage: fetched from their stores, expressions filled in, checked before any write."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from catalog.manifests.check import ManifestProblem, check_manifest, check_together
from catalog.manifests.document import BadDocument, Document
from catalog.manifests.kinds import RUN_TASK_REQUEST, SERVICE_DEFINITION, TASK_DEFINITION
from catalog.manifests.layers import Merged, combined
from catalog.manifests.reading import name_of, read_layers
from catalog.manifests.stores import TASK_DEFINITION_ARN, StoreError, fetch, title_of
from catalog.manifests.stores.arn import arn_problem
from catalog.manifests.templates import with_values
from deployments.kept_texts import opened
from deployments.models import Execution, StageExecution, StepExecution
from steps.actions.base import ActionFailed
from steps.actions.supplies import Loaded, Source, Template
from steps.expressions import BadExpressionError, resolve, value_at
from steps.kinds.base import known_steps
from steps.states import Status
from steps.variables import as_text


def provided(stage: StageExecution, steps: Iterable[StepExecution]) -> dict[str, Any]:
    """What `<+provisioner.NAME>` comes to in a stage: the outputs of its provisioning steps that succeeded.

    Where two have one of the same name, the later step's counts.
    """
    found: dict[str, Any] = {}
    mine = [one for one in steps if one.stage_id == stage.pk and makes_infrastructure(one)]
    for step in sorted(mine, key=lambda one: one.position):
        if step.status == Status.SUCCESS:
            found |= step.known_outputs
    return found


def makes_infrastructure(step: StepExecution) -> bool:
    """Whether a step is one that goes forward and makes infrastructure."""
    kind = known_steps().get(step.type)
    return kind is not None and kind.provisions and step.section == StepExecution.Section.EXECUTION


MOST_PROBLEMS = 20
NEEDS_DEFINITION = (SERVICE_DEFINITION, RUN_TASK_REQUEST)
Rows = Sequence[Mapping[str, Any]]
Steps = Sequence[StepExecution]


def to_json(value: Mapping[str, Any]) -> str:
    """A mapping as the text that an encrypted column keeps."""
    return json.dumps(value, default=str)


def listed(stage: StageExecution, kind: str, own: Rows = ()) -> tuple[Source, ...]:
    """Where the manifests of this kind lie, as frozen when the execution started; `own` are a step's."""
    return tuple(
        Source(name_of(source), title_of(source["store"]), tuple(source["paths"]))
        for source in _of_kind(_beside(stage, kind, own), kind)
    )


def load(
    execution: Execution, stage: StageExecution, kind: str, learned: Mapping[str, Any], own: Rows = ()
) -> Loaded:
    """Fetch, resolve and check the first manifest of a kind, with the overrides that are laid over it.

    `learned` are facts that expressions may name, `own` the manifests that the step brings itself. Raises
    `ActionFailed` with every problem, each naming file and line.
    """
    return load_all(execution, stage, kind, learned, own)[0]


def load_all(
    execution: Execution,
    stage: StageExecution,
    kind: str,
    learned: Mapping[str, Any],
    own: Rows = (),
    steps: Steps | None = None,
) -> tuple[Loaded, ...]:
    """As `load`, every manifest of a kind, in the order of the service."""
    known = {**known_values(execution, stage, steps), **learned}
    rows = _beside(stage, kind, own)
    if arn := _arn(rows, kind):
        return (Loaded({"taskDefinitionArn": _filled_in(arn, known)}, paths=(), warnings=()),)
    return tuple(_loaded(execution, rows, kind, one, known) for one in _read(execution, rows, kind, known))


def load_template(
    execution: Execution,
    stage: StageExecution,
    kind: str,
    learned: Mapping[str, Any],
    own: Rows,
    steps: Steps | None = None,
) -> Template:
    """Fetch a template that a step brings, with its expressions filled in. Raises `ActionFailed`."""
    known = {**known_values(execution, stage, steps), **learned}
    try:
        document = fetch(opened(_of_kind(own, kind))[0], execution.scope)[0]
        text = with_values(document.text, lambda text: as_text(resolve(text, known)))
    except StoreError as error:
        raise ActionFailed("MANIFEST_MISSING", str(error)) from error
    except BadDocument as bad:
        raise ActionFailed("BAD_TEMPLATE", str(bad)) from bad
    except BadExpressionError as bad:
        raise ActionFailed("UNKNOWN_EXPRESSION", f"{document.name}: {bad.message}") from bad
    return Template(document.name, text)


def _beside(stage: StageExecution, kind: str, own: Rows) -> Rows:
    """Where a manifest is looked for: a step's own go with each other, not with those of the service."""
    return own if brings(own, kind) else stage.sources


def brings(own: Rows, kind: str) -> bool:
    """Whether a step brings a manifest of this kind itself."""
    return bool(_of_kind(own, kind))


def _arn(rows: Rows, kind: str) -> str:
    """The ARN of a task definition that AWS has already, where the service names one."""
    found = _of_kind(rows, kind)
    by_arn = kind == TASK_DEFINITION and bool(found) and found[0]["store"] == TASK_DEFINITION_ARN
    return str(found[0]["content"]) if by_arn else ""


def _filled_in(arn: str, known: Mapping[str, Any]) -> Any:
    try:
        filled = resolve(arn, known)
    except BadExpressionError as bad:
        raise ActionFailed("UNKNOWN_EXPRESSION", f"task definition ARN: {bad.message}") from bad
    if problem := arn_problem(str(filled)):
        raise ActionFailed("BAD_MANIFEST", f"The task definition ARN {filled!r} {problem}")
    return filled


def _of_kind(rows: Rows, kind: str) -> list[Mapping[str, Any]]:
    return [source for source in rows if source["kind"] == kind]


def _loaded(execution: Execution, rows: Rows, kind: str, one: Merged, known: Mapping[str, Any]) -> Loaded:
    checked = check_manifest(kind, one.document)
    found = list(checked.problems)
    beside = _task_definition(execution, rows, known) if kind in NEEDS_DEFINITION and not found else {}
    if beside:
        found += check_together(one.document, beside).problems
    if found:
        raise ActionFailed("BAD_MANIFEST", _as_text(found))
    return Loaded(
        value=checked.value,
        paths=tuple(path for layer in one.layers for path in layer.paths),
        warnings=tuple(str(warning) for warning in checked.warnings),
        overrides=tuple(f"{layer.identifier} of the {layer.level}" for layer in one.layers[1:]),
    )


def _read(execution: Execution, rows: Rows, kind: str, known: Mapping[str, Any]) -> tuple[Merged, ...]:
    """The manifests of a kind with their overrides, expressions filled in."""
    try:
        layers = read_layers(
            kind,
            opened(_of_kind(rows, kind)),
            execution.scope,
            lambda document: document.with_value(_resolved(document, known)),
        )
        return combined(kind, layers)
    except StoreError as error:
        raise ActionFailed("MANIFEST_MISSING", str(error)) from error
    except BadDocument as bad:
        raise ActionFailed("BAD_MANIFEST", str(bad)) from bad


def _task_definition(execution: Execution, rows: Rows, known: Mapping[str, Any]) -> Mapping[str, Any]:
    """The task definition beside a service definition; its own mistakes were told before."""
    found = _of_kind(rows, TASK_DEFINITION)
    if not found or found[0]["store"] == TASK_DEFINITION_ARN:
        return {}
    value = _read(execution, rows, TASK_DEFINITION, known)[0].document.value
    return value if isinstance(value, Mapping) else {}


def known_values(execution: Execution, stage: StageExecution, steps: Steps | None = None) -> dict[str, Any]:
    """Everything that an expression can name at this point of the execution.

    `steps` are those of this stage and of the stages before it, where they are loaded.
    """
    artifact = artifact_values(execution)
    rows = _steps_of(execution, stage) if steps is None else list(steps)
    outputs = {step.identifier: {"output": step.known_outputs} for step in rows}
    return {
        **_with_secrets(stage.values, execution.hidden_inputs),
        "primary": {"artifact": artifact},
        "artifact": artifact,
        "steps": outputs,
        "execution": {"steps": outputs, "id": str(execution.pk)},
        "provisioner": provided(stage, rows),
    }


def artifact_values(execution: Execution) -> dict[str, str]:
    """What an expression can name of the image that is deployed."""
    image, tag = execution.artifact.get("image", ""), execution.artifact.get("tag", "")
    found = {"image": f"{image}:{tag}", "imagePath": image, "tag": tag}
    if digest := execution.artifact.get("digest"):
        found |= {"digest": digest, "imageWithDigest": f"{image}@{digest}"}
    return found


def _with_secrets(values: Mapping[str, Any], hidden: Mapping[str, str]) -> Mapping[str, Any]:
    """The values of a stage with the variables that are secrets, which no row of it holds."""
    if not hidden:
        return values
    pipeline = values.get("pipeline", {})
    return {
        **values,
        "variables": {**hidden, **values.get("variables", {})},
        "pipeline": {**pipeline, "variables": {**pipeline.get("variables", {}), **hidden}},
    }


def value_of(path: str, known: Mapping[str, Any]) -> Any:
    """What one expression comes to now. Raises `ActionFailed` where it names nothing."""
    try:
        return value_at(path, known)
    except BadExpressionError as bad:
        raise ActionFailed("UNKNOWN_EXPRESSION", bad.message) from bad


def _steps_of(execution: Execution, stage: StageExecution) -> list[StepExecution]:
    """The steps that can be named: where two stages have one of the same name, the nearest stage's."""
    rows = StepExecution.objects.filter(stage__execution=execution, stage__position__lte=stage.position)
    return list(rows.order_by("stage__position", "section", "position"))


def _resolved(document: Document, known: Mapping[str, Any]) -> Any:
    try:
        return resolve(document.value, known)
    except BadExpressionError as bad:
        line = document.line_of(bad.where)
        raise ActionFailed("UNKNOWN_EXPRESSION", f"{document.name}, line {line}: {bad.message}") from bad


def _as_text(problems: Sequence[ManifestProblem]) -> str:
    shown = [str(problem) for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        shown.append(f"and {len(problems) - MOST_PROBLEMS} more")
    return "\n".join(shown)
