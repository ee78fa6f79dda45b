"""Form fields for the service, environment and infrastructure of a stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from catalog.manifests.yaml_drafts import NotEditable
from pipelines.editor.cells import FieldRow, StepField
from pipelines.editor.form_rows import StepManifestRow
from pipelines.editor.tree_paths import TreePath, get_body, get_kind, get_node

# The field of steps that name a connector themselves.
CONNECTOR_REFERENCE: Final = "spec.connectorRef"
LabeledChoices = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class EditorChoices:
    """Choices for stages and steps, with labels; infrastructures are environment/infrastructure.

    `connectors` are those for manifests of steps.
    """

    services: LabeledChoices = ()
    infrastructures: LabeledChoices = ()
    connectors: LabeledChoices = ()
    regions: LabeledChoices = ()


def set_target(tree: Any, stage_at: TreePath, place: str) -> None:
    """Set the target of a stage, as environment/infrastructure. Raises `NotEditable` without a stage."""
    stage = get_node(tree, stage_at)
    if get_kind(stage) != "stage" or not isinstance(get_body(stage).get("spec", {}), dict):
        raise NotEditable("Only a stage with a valid spec has a target. Correct the spec in the YAML first.")
    write_target(get_body(stage), {"place": place})


def build_target_fields(body: Mapping[str, Any], nearby: EditorChoices) -> list[StepField]:
    """Build the fields for service and target of a stage, with the available choices."""
    service, place = _get_target(body)
    return [
        replace(
            _build_choice_field("service", "Service", service, nearby.services, "Choose a service"),
            new_noun="service",
        ),
        _build_choice_field(
            "place", "Environment and infrastructure", place, nearby.infrastructures, "Choose a target"
        ),
    ]


def add_choices(nearby: EditorChoices, field: StepField) -> StepField:
    """Add the available connectors and regions as choices of a field."""
    if field.name == CONNECTOR_REFERENCE:
        return replace(field, new_noun="connector")
    if field.style != StepManifestRow.style:
        return field
    rows = tuple(_add_row_choices(nearby, row) for row in field.rows)
    return replace(field, rows=rows, blank=_add_row_choices(nearby, field.blank) if field.blank else None)


def _add_row_choices(nearby: EditorChoices, row: FieldRow) -> FieldRow:
    options = {"connector": nearby.connectors, "region": nearby.regions}
    cells = (replace(cell, new_noun="connector" if cell.key == "connector" else "") for cell in row.cells)
    return replace(
        row,
        cells=tuple(
            _add_cell_choices(options[cell.key], cell) if options.get(cell.key) else cell for cell in cells
        ),
    )


def _add_cell_choices(options: LabeledChoices, cell: StepField) -> StepField:
    """Add choices to a cell; a value outside of them, such as an expression, stays."""
    empty = ("", f"Choose a {cell.key}")
    other = ((cell.value, f"{cell.value} (not found)"),) if cell.value not in {"", *dict(options)} else ()
    return replace(cell, kind="choice", choices=(empty, *other, *options), help="")


def _build_choice_field(name: str, label: str, value: str, options: LabeledChoices, empty: str) -> StepField:
    choices = [*(() if value else (("", empty),)), *options]
    if value and value not in dict(options):
        choices.insert(0, (value, f"{value} (not found)"))
    return StepField(
        name=name, label=label, kind="choice", value=value, choices=tuple(choices), is_required=True
    )


def _get_target(body: Mapping[str, Any]) -> tuple[str, str]:
    spec = body.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    service, environment = spec.get("service"), spec.get("environment")
    named = str(service.get("serviceRef") or "") if isinstance(service, dict) else ""
    if not isinstance(environment, dict) or not environment.get("environmentRef"):
        return named, ""
    places = environment.get("infrastructureDefinitions")
    first = places[0] if isinstance(places, list) and places and isinstance(places[0], dict) else {}
    return named, f"{environment['environmentRef']}/{first.get('identifier') or ''}"


def write_target(body: dict[str, Any], entered: Mapping[str, str]) -> None:
    """Write the selected service and target if they changed."""
    service, place = _get_target(body)
    spec = body.setdefault("spec", {"deploymentType": "ECS"})
    if not isinstance(spec, dict):
        return
    if (chosen := entered.get("service", "")) and chosen != service:
        _get_or_create_mapping(spec, "service")["serviceRef"] = chosen
    if (chosen := entered.get("place", "")) and chosen != place:
        environment, _, infrastructure = chosen.partition("/")
        inner = _get_or_create_mapping(spec, "environment")
        inner["environmentRef"] = environment
        inner["infrastructureDefinitions"] = [{"identifier": infrastructure}]
    _sort_keys(spec)


def _get_or_create_mapping(around: dict[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(around.get(name), dict):
        around[name] = {}
    inner: dict[str, Any] = around[name]
    return inner


def _sort_keys(spec: dict[str, Any]) -> None:
    """Sort the keys of a stage so that service and target come first."""
    order = ("deploymentType", "service", "environment")
    if all(name in spec for name in order) and list(spec)[:3] != list(order):
        whole = {name: spec[name] for name in order} | spec
        spec.clear()
        spec.update(whole)
