"""The variables of a pipeline by rows: what is not touched stays as written, what is entered is judged."""

from typing import Any

import pytest

from guards.yaml_parser import parse_yaml
from pipelines.editor.commands import run_command
from pipelines.editor.variable_rows import VariableRows
from pipelines.inputs.variables import parse_variables
from tests.pipelines.editor.test_form_rows import TEXT, collect_form_values, fields_at

VARIABLES = """\
  variables:
    # Where it goes.
    region: eu-central-1 # ours
    digits: "3"
    count: {type: Number, default: 2, allowedValues: [1, 2, 3], description: How many}
    color: <+input>.default(blue).allowedValues(blue,green)
    token:
      type: Secret # of the registry
      required: true
"""
WHOLE = TEXT.replace("  stages:\n", f"{VARIABLES}  stages:\n", 1)


def variables(text: str) -> dict[str, Any]:
    return dict(parse_yaml(text).value["pipeline"]["variables"])


def fill_cells(**cells: str) -> dict[str, str]:
    cell_values = {f"variables.{key.replace('__', '.')}": value for key, value in cells.items()}
    return collect_form_values(WHOLE, "pipeline") | {"form_is": ""} | cell_values


def test_every_way_to_write_a_variable_is_shown_and_stays_where_nothing_is_entered():
    field = fields_at(WHOLE, "pipeline")["variables"]
    assert field.kind == "rows"
    shown_cells = [{cell.key: cell.value for cell in row.cells if cell.value} for row in field.rows]
    assert shown_cells == [
        {"name": "region", "value": "eu-central-1"},
        {"name": "digits", "value": "3"},
        {
            "name": "count",
            "type": "Number",
            "default": "2",
            "allowedValues": "1\n2\n3",
            "description": "How many",
        },
        {"name": "color", "value": "<+input>.default(blue).allowedValues(blue,green)"},
        {"name": "token", "type": "Secret", "required": "true"},
    ]
    assert run_command(WHOLE, fill_cells()).text == WHOLE


def test_what_counts_where_nothing_is_said_of_required_is_told():
    field = fields_at(WHOLE, "pipeline")["variables"]
    cells = {cell.key: cell for cell in field.rows[2].cells}
    assert cells["required"].choices[0] == ("", "Default: yes, without a default")
    required, optional = parse_variables(
        {"one": {"type": "String"}, "other": {"type": "String", "default": "x"}}
    )
    assert (required.is_required, optional.is_required) == (True, False)


def test_a_changed_cell_changes_its_value_alone_and_comments_stay():
    text = run_command(
        WHOLE, fill_cells(**{"0__value": "us-east-1", "4__description": "Of the registry"})
    ).text
    assert "    # Where it goes.\n    region: us-east-1 # ours\n" in text
    assert "      type: Secret # of the registry\n" in text
    assert variables(text)["token"] == {"type": "Secret", "required": True, "description": "Of the registry"}
    assert variables(text)["digits"] == "3"


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("default", "blue"),
        ("required", "false"),
        ("allowedValues", "a\nb"),
        ("pattern", "a+"),
        ("description", "Where it goes"),
    ],
)
@pytest.mark.parametrize("row", [{"5__name": "wait", "5__value": "x"}, {"0__name": "place"}, {"2__type": ""}])
def test_what_only_a_variable_with_a_type_has_is_not_lost_without_one(
    row: dict[str, str], cell: str, value: str
):
    number = next(iter(row)).partition("__")[0]
    outcome = run_command(WHOLE, fill_cells(**row, **{f"{number}__{cell}": value}))
    assert outcome.text == WHOLE
    assert outcome.errors == {
        f"variables.{number}.type": "Choose a type. Without one, a variable has a name and a value only."
    }


def test_variables_are_added_renamed_and_removed():
    added = {"5__name": "wait", "5__type": "Boolean", "5__value": "true", "5__description": "A pause"}
    text = run_command(WHOLE, fill_cells(**added, **{"1__name": "number"})).text
    entries = variables(text)
    assert entries["wait"] == {"type": "Boolean", "value": True, "description": "A pause"}
    assert list(entries) == ["region", "number", "count", "color", "token", "wait"]
    assert entries["number"] == "3"
    assert parse_variables(entries)
    without = {key: value for key, value in fill_cells().items() if not key.startswith("variables.0.")}
    assert list(variables(run_command(WHOLE, without).text)) == ["digits", "count", "color", "token"]
    none = {key: value for key, value in fill_cells().items() if key.count(".") < 2}
    assert run_command(WHOLE, none).text == TEXT


@pytest.mark.parametrize(
    ("cells", "location", "message"),
    [
        ({"0__name": ""}, "0.name", "Enter a value."),
        ({"0__name": "two words"}, "0.name", "Letters, digits"),
        ({"0__name": "a.b"}, "0.name", "Letters, digits"),
        ({"0__name": "digits"}, "1.name", "Two variables have the name digits. Names must be unique."),
        ({"2__default": "many"}, "2.default", "must be a number"),
        ({"2__pattern": "(a"}, "2.pattern", "pattern"),
        ({"2__required": "perhaps"}, "2.required", "yes or no"),
        ({"3__value": "<+input>.deflaut(x)"}, "3.value", "is not .default"),
        ({"2__allowedValues": "1\nseven"}, "2.allowedValues", "seven must be a number"),
        ({"2__allowedValues": "1\n3"}, "2.default", "must be one of 1, 3"),
        ({"2__type": "Text"}, "2.type", "must be one of"),
    ],
)
def test_what_makes_no_sense_is_said_beside_its_cell_and_nothing_is_lost(
    cells: dict[str, str], location: str, message: str
):
    outcome = run_command(WHOLE, fill_cells(**cells))
    assert outcome.text == WHOLE
    assert message in outcome.errors[f"variables.{location}"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("yes", "yes"),
        ("1.28", 1.28),
        ("v1", "v1"),
        ("<+input>", "<+input>"),
    ],
)
def test_a_plain_value_is_read_as_people_mean_it(text: str, value: Any):
    name, parsed = VariableRows().parse_cells({"name": "one", "value": text})
    assert (name, parsed, type(parsed)) == ("one", value, type(value))


@pytest.mark.parametrize(
    "value",
    [None, ["a"], {"type": "Text"}, {"type": "String", "value": 3}, {"other": 1}, {"value": {"a": 1}}],
)
def test_what_cells_cannot_say_is_left_to_the_text(value: Any):
    assert VariableRows().render_cells(("one", value)) is None
