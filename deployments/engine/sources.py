"""The manifests of a stage: fetched from their stores, expressions filled in, checked before any write."""

import json
from collections.abc import Mapping
from typing import Any

from deployments.actions.base import ActionFailed, Loaded, Source
from deployments.expressions import BadExpressionError, resolve
from deployments.manifests.check import check_manifest
from deployments.manifests.document import BadDocument, Document
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


def load(execution: Execution, stage: StageExecution, kind: str) -> Loaded:
    """Fetch, resolve and check the first manifest of a kind.

    Raises `ActionFailed` with every problem, each naming file and line.
    """
    source = next(source for source in stage.sources if source["kind"] == kind)
    try:
        documents = fetch(source, execution.scope)
    except StoreError as error:
        raise ActionFailed("MANIFEST_MISSING", str(error)) from error
    except BadDocument as bad:
        raise ActionFailed("BAD_MANIFEST", f"{bad.name}, line {bad.line}: {bad.message}") from bad
    document = documents[0].with_value(_resolved(documents[0], known_values(execution, stage)))
    checked = check_manifest(kind, document)
    if checked.problems:
        raise ActionFailed("BAD_MANIFEST", _as_text(checked.problems))
    return Loaded(
        value=checked.value,
        paths=tuple(source["paths"]),
        warnings=tuple(f"{w.file}, line {w.line}: {w.message}" for w in checked.warnings),
    )


def known_values(execution: Execution, stage: StageExecution) -> dict[str, Any]:
    """Everything that an expression can name at this point of the execution."""
    image, tag = execution.artifact.get("image", ""), execution.artifact.get("tag", "")
    artifact = {"image": f"{image}:{tag}", "imagePath": image, "tag": tag}
    steps = {
        step.identifier: {"output": step.outputs}
        for step in _steps_of(execution)
    }
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


def _as_text(problems: Any) -> str:
    shown = [f"{p.file}, line {p.line}: {p.path}: {p.message}" for p in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        shown.append(f"and {len(problems) - MOST_PROBLEMS} more")
    return "\n".join(shown)
