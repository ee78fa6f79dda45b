"""The form of an input set: a name, and values for some of the inputs of its pipeline."""

from collections.abc import Mapping
from typing import Any

from deployments.forms.resources import ResourceForm, WithIdentifier
from deployments.forms.runs import AskedInput
from deployments.inputs import Variable, spoken
from deployments.models import Pipeline
from deployments.run_requests import known_variables
from web.problems import Problem


class InputSetForm(ResourceForm):
    """An input set; `begun` is what its inputs are before somebody writes."""

    def __init__(self, *args: Any, pipeline: Pipeline, begun: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.begun = begun
        self.variables = [one for one in known_variables(pipeline) if not one.is_secret]
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

    def asked(self) -> list[AskedInput]:
        """A field for each input."""
        return [AskedInput(one, self._shown(one), self.errors_of.get(one.name, "")) for one in self.variables]

    def _shown(self, variable: Variable) -> str:
        name = f"input.{variable.name}"
        if self.is_bound and name in self.data:
            return str(self.data[name])
        return spoken(self.begun[variable.name]) if variable.name in self.begun else ""


class NewInputSetForm(WithIdentifier, InputSetForm):
    """An input set that is not there yet."""
