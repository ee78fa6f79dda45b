"""The action that hands on the outputs of a workspace's state."""

import json
from dataclasses import dataclass
from typing import Any

from steps.actions.base import Action, ActionFailed, Rollout, action
from steps.actions.terraform_cloud.api import Document, TerraformCloud

MOST_OUTPUTS = 200
KEPT_CHARACTERS = 16_000
SHOWN_CHARACTERS = 200


@action
@dataclass(frozen=True)
class ReadTerraformCloudOutputs(Action):
    """Read the outputs of the workspace's current state; sensitive ones are secrets."""

    repeats = True

    connector: str

    @property
    def title(self) -> str:
        return "Read outputs"

    def start(self, rollout: Rollout) -> None:
        workspace = str(rollout.know("workspaceId") or "")
        if not workspace:
            return
        cloud = TerraformCloud(rollout, self.connector)
        path = ("workspaces", workspace, "current-state-version-outputs")
        listed = cloud.listed(path, "the outputs of the workspace")
        if len(listed) > MOST_OUTPUTS:
            rollout.log(f"Only the first {MOST_OUTPUTS} of {len(listed)} outputs are kept", "warning")
        for one in listed[:MOST_OUTPUTS]:
            self._keep(cloud, one)

    def _keep(self, cloud: TerraformCloud, one: Document) -> None:
        attributes = _attributes(one)
        name, is_secret = str(attributes.get("name", "")), attributes.get("sensitive") is True
        value = attributes.get("value")
        if is_secret and value is None:
            path = ("state-version-outputs", str(one.get("id")))
            value = _attributes(cloud.get(path, f"the output {name}").get("data")).get("value")
        text = _as_text(value)
        if len(text) > KEPT_CHARACTERS:
            raise ActionFailed(
                "OUTPUTS_TOO_LARGE", f"Output {name} has more than {KEPT_CHARACTERS:,} characters."
            )
        cloud.rollout.learn_output(name, text, is_secret=is_secret)
        shown = "(sensitive)" if is_secret else text[:SHOWN_CHARACTERS]
        cloud.rollout.log(f"Output {name} = {shown}")


def _attributes(one: Any) -> dict[str, Any]:
    found = one.get("attributes") if isinstance(one, dict) else None
    return dict(found) if isinstance(found, dict) else {}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
