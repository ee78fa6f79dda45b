"""Forms of input sets, with a field for each input."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pipelines.inputs.variables import PipelineVariable, format_variable_value
from pipelines.models import Pipeline
from pipelines.operations.pipelines import list_pipeline_variables
from web.forms.page_forms import LOST_LINE_ENDS, has_lost_line_ends, needs_area, normalize_line_ends
from web.forms.resource_forms import IdentifierForm, ResourceForm
from web.http.problems import BadInput, Problem

# An input that is never shown has no area.
_LOST_FOR_GOOD: Final = "has lost its line ends: browsers remove them here, so start the run by API"


@dataclass(frozen=True)
class RunVariableInput:
    """A variable in the form of a run, with its submitted value."""

    variable: PipelineVariable
    value: str
    error: str = ""

    @property
    def id(self) -> str:
        """Return the HTML id of the control."""
        return f"input-{self.variable.name}"

    @property
    def has_lines(self) -> bool:
        """Return whether the value or the default needs an area; a secret is never shown."""
        texts = (self.value, str(self.variable.value))
        return not self.variable.is_secret and any(map(needs_area, texts))

    @property
    def choices(self) -> list[tuple[str, str]]:
        """Return the options of a variable with allowed values, or of a Boolean."""
        variable = self.variable
        options = [format_variable_value(value) for value in variable.allowed] or (
            ["true", "false"] if variable.type == "Boolean" else []
        )
        empty = [] if self.value in options or not options else [("", "Choose")]
        return empty + [(value, value) for value in options]


def get_posted_input(data: Mapping[str, Any], variable: PipelineVariable) -> str:
    """Return the posted text of an input; empty if it was not posted."""
    return normalize_line_ends(str(data.get(f"input.{variable.name}", "")))


def parse_posted_inputs(
    data: Mapping[str, Any], variables: Iterable[PipelineVariable], shown: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the posted inputs without empty fields, converted to the types of the variables.

    Raises `BadInput` for a key or certificate whose lines the browser has joined. Defaults and `shown` values
    of one line are not pasted, and stay as they are.
    """
    entered = {variable: get_posted_input(data, variable) for variable in variables}
    errors = [
        {
            "path": f"inputs.{variable.name}",
            "message": _LOST_FOR_GOOD if variable.is_secret else LOST_LINE_ENDS,
        }
        for variable, text in entered.items()
        if has_lost_line_ends(text) and text not in (variable.value, shown.get(variable.name))
    ]
    if errors:
        raise BadInput("The inputs are not valid.", errors=errors)
    return {variable.name: variable.parse_value(text) for variable, text in entered.items() if text != ""}


class InputSetForm(ResourceForm):
    """Form of an input set; `initial_inputs` are the values before editing."""

    def __init__(
        self, *args: Any, pipeline: Pipeline, initial_inputs: Mapping[str, Any], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.initial_inputs = initial_inputs
        self.variables = [
            variable for variable in list_pipeline_variables(pipeline) if not variable.is_secret
        ]
        self.input_errors: dict[str, str] = {}

    def add_problem(self, problem: Any) -> None:
        """Show the problem of an input at its field."""
        errors = problem.errors if isinstance(problem, Problem) else []
        self.input_errors = {
            str(error["path"]).removeprefix("inputs."): str(error["message"]) for error in errors
        }
        super().add_problem(problem)

    def inputs(self) -> dict[str, Any]:
        """Return the submitted inputs. Raises `BadInput` as `parse_posted_inputs` does."""
        return parse_posted_inputs(self.data, self.variables, self.initial_inputs)

    def list_inputs(self) -> list[RunVariableInput]:
        """Return a field for each input."""
        return [
            RunVariableInput(variable, self._get_text(variable), self.input_errors.get(variable.name, ""))
            for variable in self.variables
        ]

    def _get_text(self, variable: PipelineVariable) -> str:
        if self.is_bound and f"input.{variable.name}" in self.data:
            return get_posted_input(self.data, variable)
        return (
            format_variable_value(self.initial_inputs[variable.name])
            if variable.name in self.initial_inputs
            else ""
        )


class NewInputSetForm(IdentifierForm, InputSetForm):
    """Form for a new input set."""
