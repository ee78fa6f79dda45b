"""Operations on input sets: create, update, delete, merge, record a use."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from catalog.operations.resources import increment_version
from connectors.operations.identifiers import (
    build_identifier_conflict,
    require_valid_identifier,
    validate_name,
)
from guards.limits import DESCRIPTION_CHARACTERS
from pipelines.inputs.variables import validate_input_set_values
from pipelines.models import InputSet, Pipeline
from pipelines.operations.pipelines import parse_valid_pipeline
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import Principal, filter_visible, require
from web.http.problems import BadInput
from web.managed_resources import require_unmanaged

VIEW, EDIT, DELETE = "core_inputset_view", "core_inputset_edit", "core_inputset_delete"


@dataclass(frozen=True)
class InputSetSpec:
    """The fields of an input set except its identifier."""

    name: str
    description: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)


def list_input_sets() -> "QuerySet[InputSet]":
    """Return the input sets of active pipelines, with the relations for permission checks."""
    return InputSet.objects.filter(pipeline__deleted_at=None).select_related("pipeline__scope")


def list_visible_input_sets(pipeline: Pipeline, person: Principal) -> "QuerySet[InputSet]":
    """Return the visible input sets of a pipeline, by name."""
    rows = InputSet.objects.filter(pipeline=pipeline).select_related("pipeline__scope")
    return filter_visible(person, VIEW, rows).order_by("name", "pk")


def create_input_set(*, actor: User, pipeline: Pipeline, identifier: str, spec: InputSetSpec) -> InputSet:
    """Create an input set. Raises `BadInput` or `Conflict`."""
    require(actor, EDIT, pipeline)
    require_valid_identifier(identifier)
    made = InputSet(pipeline=pipeline, identifier=identifier)
    _apply_spec(made, spec)
    try:
        with transaction.atomic():
            made.save()
            record_audit_entry(
                actor=actor, action="inputset.create", thing=made, after=serialize_input_set(made)
            )
    except IntegrityError as exc:
        raise build_identifier_conflict("input set", identifier) from exc
    return made


def update_input_set(
    *, actor: User, input_set: InputSet, spec: InputSetSpec, version: int | None = None
) -> InputSet:
    """Replace all fields of an input set except its identifier.

    Raises `VersionConflict` if `version` is given and outdated.
    """
    require(actor, EDIT, input_set)
    require_unmanaged(input_set)
    before = serialize_input_set(input_set)
    _apply_spec(input_set, spec)
    with transaction.atomic():
        increment_version(input_set, version)
        input_set.save(update_fields=["name", "description", "inputs", "updated_at"])
        after = serialize_input_set(input_set)
        record_audit_entry(actor=actor, action="inputset.update", thing=input_set, before=before, after=after)
    return input_set


def validate_spec(pipeline: Pipeline, spec: InputSetSpec) -> None:
    """Validate the inputs of an input set. Raises `BadInput`."""
    validate_name(spec.name)
    if len(spec.description) > DESCRIPTION_CHARACTERS:
        message = f"must have at most {DESCRIPTION_CHARACTERS}"
        raise BadInput("The description is too long.", errors=[{"path": "description", "message": message}])
    if errors := validate_input_set_values(parse_valid_pipeline(pipeline.yaml).variables, spec.inputs):
        raise BadInput("The inputs do not match the pipeline.", errors=errors)


def serialize_input_set(input_set: InputSet) -> dict[str, Any]:
    """Return the fields of an input set for comparison and audit."""
    return {"name": input_set.name, "description": input_set.description, "inputs": input_set.inputs}


def delete_input_set(*, actor: User, input_set: InputSet) -> None:
    """Delete an input set; runs that used it keep its values."""
    require(actor, DELETE, input_set)
    require_unmanaged(input_set)
    with transaction.atomic():
        record_audit_entry(
            actor=actor, action="inputset.delete", thing=input_set, before=serialize_input_set(input_set)
        )
        input_set.delete()


def merge_input_sets(pipeline: Pipeline, person: Principal, identifiers: Iterable[str]) -> dict[str, Any]:
    """Merge input sets; later ones override earlier ones.

    Raises `BadInput` with the first missing one.
    """
    names = list(identifiers)
    visible_sets = {
        input_set.identifier: input_set
        for input_set in list_visible_input_sets(pipeline, person).filter(identifier__in=names)
    }
    inputs: dict[str, Any] = {}
    for number, identifier in enumerate(names):
        if identifier not in visible_sets:
            message = f"this pipeline has no input set {identifier}"
            error = {"path": f"input_sets.{number}", "message": message}
            raise BadInput("This input set does not exist.", errors=[error])
        inputs |= visible_sets[identifier].inputs
    return inputs


def record_use(pipeline: Pipeline, identifiers: Iterable[str]) -> None:
    """Record the use of input sets in a run; call it inside the transaction that starts the run."""
    if used := set(identifiers):
        rows = InputSet.objects.filter(pipeline=pipeline, identifier__in=used)
        rows.update(runs=F("runs") + 1, last_run_at=timezone.now())


def _apply_spec(input_set: InputSet, spec: InputSetSpec) -> None:
    validate_spec(input_set.pipeline, spec)
    input_set.name = validate_name(spec.name)
    input_set.description, input_set.inputs = spec.description, dict(spec.inputs)
