"""Forms of input sets, with a field for each input."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.inputs.variables import PipelineVariable, format_variable_value
from pipelines.models import Pipeline
from pipelines.operations.pipelines import list_pipeline_variables
from web.forms.resource_forms import IdentifierForm, ResourceForm
from web.http.problems import Problem


@dataclass(frozen=True)
class RunVariableInput:
    """A variable that the form of a run asks for, with what was entered."""

    variable: PipelineVariable
    value: str
    error: str = ""

    @property
    def id(self) -> str:
        """What the page calls the control."""
        return f"input-{self.variable.name}"

    @property
    def choices(self) -> list[tuple[str, str]]:
        """What can be chosen, for a variable with a list of allowed values or for true and false."""
        one = self.variable
        said = [format_variable_value(value) for value in one.allowed] or (
            ["true", "false"] if one.type == "Boolean" else []
        )
        empty = [] if self.value in said or not said else [("", "Choose")]
        return empty + [(value, value) for value in said]


class InputSetForm(ResourceForm):
    """An input set; `begun` is what its inputs are before somebody writes."""

    def __init__(self, *args: Any, pipeline: Pipeline, begun: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.begun = begun
        self.variables = [one for one in list_pipeline_variables(pipeline) if not one.is_secret]
        self.errors_of: dict[str, str] = {}

    def refuse(self, problem: Any) -> None:
        """Show what is wrong with an input beside it."""
        errors = problem.errors if isinstance(problem, Problem) else []
        self.errors_of = {str(one["path"]).removeprefix("inputs."): str(one["message"]) for one in errors}
        super().refuse(problem)

    def inputs(self) -> dict[str, Any]:
        """What was entered; an empty field says nothing."""
        entered = {one: self.data.get(f"input.{one.name}", "") for one in self.variables}
        return {one.name: one.entered(text) for one, text in entered.items() if text != ""}

    def asked(self) -> list[RunVariableInput]:
        """A field for each input."""
        return [
            RunVariableInput(one, self._shown(one), self.errors_of.get(one.name, ""))
            for one in self.variables
        ]

    def _shown(self, variable: PipelineVariable) -> str:
        name = f"input.{variable.name}"
        if self.is_bound and name in self.data:
            return str(self.data[name])
        return format_variable_value(self.begun[variable.name]) if variable.name in self.begun else ""


class NewInputSetForm(IdentifierForm, InputSetForm):
    """An input set that is not there yet."""
