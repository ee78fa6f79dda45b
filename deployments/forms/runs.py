"""The form that runs a pipeline."""

from collections.abc import Iterable, Sequence
from typing import Any

from django import forms
from django.db.models import QuerySet

from deployments import operations, previews
from deployments.run_requests import asked_variables
from pipelines.forms.input_sets import AskedInput
from pipelines.inputs.variables import Variable, spoken
from pipelines.models import InputSet, Pipeline
from web.problems import Problem

TAG = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z"


def _tag_field() -> forms.RegexField:
    return forms.RegexField(
        regex=TAG,
        strip=True,
        error_messages={
            "required": "Enter the tag of the image to deploy.",
            "invalid": "A tag has letters, digits, dots, dashes and underscores, 128 at most.",
        },
    )


class DeployForm(forms.Form):
    """Which tag of a service's image to deploy, by which of the pipelines that deploy the service."""

    tag = _tag_field()
    pipeline = forms.ModelChoiceField(
        Pipeline.objects.none(),
        error_messages={
            "required": "Choose the pipeline that deploys it.",
            "invalid_choice": "This pipeline does not deploy the service, or you may not run it.",
        },
    )

    def __init__(self, *args: Any, pipelines: QuerySet[Pipeline], pattern: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pattern = pattern
        self.fields["tag"].required = not pattern
        self.fields["pipeline"].queryset = pipelines  # type: ignore[attr-defined]
        self.pipelines = list(pipelines)
        self.tags: list[str] = []
        self.problems: list[dict[str, Any]] = []

    def refuse(self, problem: Problem) -> None:
        """This will show why nothing was deployed."""
        self.problems = problem.errors or [{"path": "", "message": problem.detail}]


class RunForm(forms.Form):
    """Which image tag to run and with which inputs, beside the plan of what that will do."""

    tag = _tag_field()
    override_freeze = forms.BooleanField(required=False)
    keep_same_tasks = forms.BooleanField(required=False)

    def __init__(self, *args: Any, pipeline: Pipeline, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pipeline = pipeline
        self.problems: list[dict[str, Any]] = []
        self.plan: list[dict[str, Any]] = []
        self.artifact: dict[str, Any] = {}
        self.variables = asked_variables(pipeline)
        self.errors_of: dict[str, str] = {}
        self.begun: dict[str, Any] = {}
        self.sets: list[InputSet] = []
        self.chosen: list[str] = []
        try:
            self.plan = operations.preview_run(pipeline)
            self.artifact = operations.default_artifact(pipeline)
            self.initial["tag"] = self.artifact["tag"]
            self.fields["tag"].required = not self.pattern
        except Problem as problem:
            self.refuse(problem)

    @property
    def pattern(self) -> str:
        """The pattern of the tag that a run takes where nobody chooses one."""
        return str((self.artifact.get("source") or {}).get("tagPattern") or "")

    def refuse(self, problem: Problem) -> None:
        """This will show why the run was not started; what is wrong with an input stands beside it."""
        asked = {f"inputs.{one.name}": one.name for one in self.variables}
        mine = [one for one in problem.errors if one.get("path") in asked]
        self.errors_of = {asked[one["path"]]: str(one["message"]) for one in mine}
        others = [one for one in problem.errors if one not in mine]
        self.problems = others or ([] if mine else [{"path": "", "message": problem.detail}])

    def begin_with(self, sets: Iterable[InputSet], chosen: Sequence[str]) -> None:
        """This will fill in what the chosen input sets say; of each input what the last of them says."""
        self.sets = list(sets) if self.variables else []
        self.chosen = [name for name in chosen if any(name == one.identifier for one in self.sets)]
        said = {one.identifier: one.inputs for one in self.sets}
        for name in self.chosen:
            self.begun |= said[name]

    def inputs(self) -> dict[str, Any]:
        """What was entered, of the types that the pipeline asks for."""
        entered = {one.name: self.data.get(f"input.{one.name}", "") for one in self.variables}
        return {one.name: one.entered(entered[one.name]) for one in self.variables if entered[one.name] != ""}

    def judged_plan(self) -> list[dict[str, Any]]:
        """The plan, and of each step whether it would run with what the fields hold."""
        if not self.plan:
            return []
        shown = {one: self._shown(one) for one in self.variables}
        inputs = {one.name: one.entered(text) for one, text in shown.items() if text != ""}
        try:
            return previews.judged_plan(self.pipeline, inputs, self.artifact)
        except Problem:
            return self.plan

    def asked(self) -> list[AskedInput]:
        """The fields for the inputs; a secret is never shown again."""
        return [AskedInput(one, self._shown(one), self.errors_of.get(one.name, "")) for one in self.variables]

    def _shown(self, variable: Variable) -> str:
        if variable.is_secret:
            return ""
        if self.is_bound and f"input.{variable.name}" in self.data:
            return str(self.data[f"input.{variable.name}"])
        value = self.begun.get(variable.name, variable.value)
        return "" if value is None else spoken(value)
