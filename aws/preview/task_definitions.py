"""Task definitions as they would be after the planned writes."""

from collections.abc import Mapping
from typing import Any

from aws.errors import AwsError
from aws.preview.live import Live


class PlannedTaskDefinitions:
    """The revisions that the preview has registered or deregistered, by ARN."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._planned: dict[str, dict[str, Any]] = {}
        self._newest: dict[str, int] = {}
        self._tags: dict[str, list[Any]] = {}

    def register(self, params: Mapping[str, Any], echo: Mapping[str, Any]) -> dict[str, Any]:
        """The revision that a registration makes; its number is the one that would be next now."""
        family = params["family"]
        revision = self._newest[family] = self._newest_of(family) + 1
        arn = echo["taskDefinitionArn"]
        self._tags[arn] = list(params.get("tags", ()))
        wanted = {key: value for key, value in params.items() if key != "tags"}
        made = {**wanted, "taskDefinitionArn": arn, "revision": revision, "status": "ACTIVE"}
        self._planned[arn] = made
        return made

    def deregister(self, name: str) -> dict[str, Any]:
        """The revision as a deregistration leaves it."""
        found = self.described({"taskDefinition": name})["taskDefinition"]
        gone = {**found, "status": "INACTIVE"}
        self._planned[found.get("taskDefinitionArn", name)] = gone
        return gone

    def described(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """DescribeTaskDefinition, by ARN, `family:revision` or family."""
        found = self._find(params["taskDefinition"])
        if found is not None:
            tags = (
                self._tags.get(found["taskDefinitionArn"], []) if "TAGS" in params.get("include", ()) else []
            )
            return {"taskDefinition": found, "tags": tags}
        answer = self._live.read("ecs", "DescribeTaskDefinition", params)
        definition = answer.get("taskDefinition", {})
        family, revision = definition.get("family", ""), definition.get("revision", 0)
        self._newest[family] = max(self._newest.get(family, 0), revision)
        return answer

    def _find(self, name: str) -> dict[str, Any] | None:
        if name in self._planned:
            return self._planned[name]
        active = [one for one in self._planned.values() if one.get("status") == "ACTIVE"]
        named = [one for one in active if name in (one["family"], f"{one['family']}:{one['revision']}")]
        return named[-1] if named else None

    def _newest_of(self, family: str) -> int:
        if family not in self._newest:
            try:
                self.described({"taskDefinition": family})
            except AwsError:
                # None so far, or nobody may know: the number is shown in sentences alone.
                return 0
        return self._newest.get(family, 0)
