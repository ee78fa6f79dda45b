"""The action that fetches the template of a stack."""

from dataclasses import dataclass

from steps.actions.base import Action, Rollout, action

STACK_TEMPLATE = "CloudFormationTemplate"


@action
@dataclass(frozen=True)
class FetchStackTemplate(Action):
    """Fetch the template, so that what is wrong with it is said first; what lies at a URL AWS fetches."""

    repeats = True
    url: str = ""

    @property
    def title(self) -> str:
        return "Fetch the template"

    def start(self, rollout: Rollout) -> None:
        if self.url:
            rollout.log(f"CloudFormation fetches the template from {self.url}")
            return
        source = rollout.supplies.sources(STACK_TEMPLATE)[0]
        rollout.log(f"Fetching the template from {source.store}")
        rollout.supplies.template(STACK_TEMPLATE)
        for path in source.paths:
            rollout.log(f"- {path}")
