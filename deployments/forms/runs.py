"""The form that runs a pipeline."""

from typing import Any

from django import forms

from deployments import operations
from deployments.models import Pipeline
from web.problems import Problem

TAG = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z"


class RunForm(forms.Form):
    """Which image tag to run, beside the plan of what that will do."""

    tag = forms.RegexField(
        regex=TAG,
        strip=True,
        error_messages={
            "required": "Enter the tag of the image to deploy.",
            "invalid": "A tag has letters, digits, dots, dashes and underscores, 128 at most.",
        },
    )

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
