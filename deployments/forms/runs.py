"""The form that runs a pipeline."""

from typing import Any

from django import forms
from django.db.models import QuerySet

from deployments import operations
from deployments.models import Pipeline
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

    def __init__(self, *args: Any, pipelines: QuerySet[Pipeline], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["pipeline"].queryset = pipelines  # type: ignore[attr-defined]
        self.pipelines = list(pipelines)
        self.tags: list[str] = []
        self.problems: list[dict[str, Any]] = []

    def refuse(self, problem: Problem) -> None:
        """This will show why nothing was deployed."""
        self.problems = problem.errors or [{"path": "", "message": problem.detail}]


class RunForm(forms.Form):
    """Which image tag to run, beside the plan of what that will do."""

    tag = _tag_field()

    def __init__(self, *args: Any, pipeline: Pipeline, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.problems: list[dict[str, Any]] = []
        self.plan: list[dict[str, Any]] = []
        self.artifact: dict[str, str] = {}
        try:
            self.plan = operations.preview_run(pipeline)
            self.artifact = operations.default_artifact(pipeline)
            self.initial["tag"] = self.artifact["tag"]
        except Problem as problem:
            self.refuse(problem)

    def refuse(self, problem: Problem) -> None:
        """This will show why the run was not started."""
        self.problems = problem.errors or [{"path": "", "message": problem.detail}]
