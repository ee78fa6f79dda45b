"""The manifests of a stage: fetched from their stores, expressions filled in, checked before any write."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deployments.actions.base import ActionFailed, Loaded, Source
from deployments.expressions import BadExpressionError, resolve
from deployments.manifests.check import ManifestProblem, check_manifest, check_together
from deployments.manifests.document import BadDocument, Document
from deployments.manifests.kinds import SERVICE_DEFINITION, TASK_DEFINITION
from deployments.manifests.stores import StoreError, fetch, title_of
from deployments.models import Execution, StageExecution

MOST_PROBLEMS = 20


def to_json(value: Mapping[str, Any]) -> str:
    """A mapping as the text that an encrypted column keeps."""
    return json.dumps(value, default=str)


def listed(stage: StageExecution, kind: str) -> tuple[Source, ...]:
    """Where the manifests of this kind lie, as frozen when the execution started."""
    return tuple(
        Source(source["identifier"], title_of(source["store"]), tuple(source["paths"]))
        for source in stage.sources
        if source["kind"] == kind
    )


def load(execution: Execution, stage: StageExecution, kind: str, learned: Mapping[str, Any]) -> Loaded:
    """Fetch, resolve and check the first manifest of a kind; `learned` are facts that expressions may name.

    Raises `ActionFailed` with every problem, each naming file and line.
    """
    source = next(source for source in stage.sources if source["kind"] == kind)
    return _loaded(execution, stage, source, learned)


def load_all(
    execution: Execution, stage: StageExecution, kind: str, learned: Mapping[str, Any]
) -> tuple[Loaded, ...]:
    """As `load`, every manifest of a kind, in the order of the service."""
    return tuple(
        _loaded(execution, stage, source, learned) for source in stage.sources if source["kind"] == kind
    )


def _loaded(
    execution: Execution, stage: StageExecution, source: Mapping[str, Any], learned: Mapping[str, Any]
) -> Loaded:
    kind = source["kind"]
    known = {**known_values(execution, stage), **learned}
    document = _document(execution, source, known)
    checked = check_manifest(kind, document)
    found = list(checked.problems)
    if kind == SERVICE_DEFINITION and not found:
        found += check_together(document, _task_definition(execution, stage, known)).problems
    if found:
        raise ActionFailed("BAD_MANIFEST", _as_text(found))
    return Loaded(
        value=checked.value,
        paths=tuple(source["paths"]),
        warnings=tuple(str(warning) for warning in checked.warnings),
    )


def _document(execution: Execution, source: Mapping[str, Any], known: Mapping[str, Any]) -> Document:
    try:
        document = fetch(source, execution.scope)[0]
    except StoreError as error:
        raise ActionFailed("MANIFEST_MISSING", str(error)) from error
    except BadDocument as bad:
        raise ActionFailed("BAD_MANIFEST", str(bad)) from bad
    return document.with_value(_resolved(document, known))


def _task_definition(
    execution: Execution, stage: StageExecution, known: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The task definition beside a service definition; its own mistakes were told before."""
    sources = (source for source in stage.sources if source["kind"] == TASK_DEFINITION)
    value = _document(execution, next(sources), known).value
    return value if isinstance(value, Mapping) else {}


def known_values(execution: Execution, stage: StageExecution) -> dict[str, Any]:
    """Everything that an expression can name at this point of the execution."""
    image, tag = execution.artifact.get("image", ""), execution.artifact.get("tag", "")
    artifact = {"image": f"{image}:{tag}", "imagePath": image, "tag": tag}
    steps = {step.identifier: {"output": step.outputs} for step in _steps_of(execution)}
    return {
        **stage.values,
        "primary": {"artifact": artifact},
        "artifact": artifact,
        "execution": {"steps": steps, "id": str(execution.pk)},
    }


def _steps_of(execution: Execution) -> list[Any]:
    return [step for stage in execution.stages.all() for step in stage.steps.all()]


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
