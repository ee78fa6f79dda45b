"""Listeners, rules and target groups after the planned writes."""

from collections.abc import Mapping
from typing import Any, Protocol

from aws.preview.live_reads import LiveAccount, TagOverlay


class PlannedTargets(Protocol):
    """Source of the targets that planned ECS services register in a target group."""

    def list_planned_targets(self, target_group_arn: str) -> list[str]:
        """Return a name for each target."""


class ElbOverlay:
    """Answers for the listeners and rules that the preview has changed."""

    def __init__(self, live: LiveAccount, targets: PlannedTargets) -> None:
        self._live = live
        self._targets = targets
        self._changes: dict[str, dict[str, Any]] = {}
        self._tags = TagOverlay("Key", "Value")

    def get_state_before(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the listener or rule that a write is about to change."""
        if operation == "ModifyListener":
            return self._get_first(
                "DescribeListeners", "Listeners", {"ListenerArns": [params["ListenerArn"]]}
            )
        if operation == "ModifyRule":
            return self._get_first("DescribeRules", "Rules", {"RuleArns": [params["RuleArn"]]})
        return {}

    def _get_first(self, operation: str, result_key: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return next(iter(self.answer_read(operation, params)[result_key]), {})

    def apply_write(self, operation: str, params: Mapping[str, Any], response: dict[str, Any]) -> None:
        if operation == "ModifyListener":
            self._record_change(params["ListenerArn"], params)
            response.update(self.answer_read("DescribeListeners", {"ListenerArns": [params["ListenerArn"]]}))
        elif operation == "ModifyRule":
            self._record_change(params["RuleArn"], params)
            response.update(self.answer_read("DescribeRules", {"RuleArns": [params["RuleArn"]]}))
        elif operation in ("AddTags", "RemoveTags"):
            for arn in params["ResourceArns"]:
                self._tags.set_tags(arn, params.get("Tags", ()))
                self._tags.remove_tags(arn, params.get("TagKeys", ()))

    def _record_change(self, arn: str, params: Mapping[str, Any]) -> None:
        self._changes.setdefault(arn, {}).update(params)

    def answer_read(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        response = self._live.read("elbv2", operation, params)
        if operation == "DescribeListeners":
            return {
                **response,
                "Listeners": [self._apply_listener_change(item) for item in response.get("Listeners", ())],
            }
        if operation == "DescribeRules":
            return {
                **response,
                "Rules": [self._apply_rule_change(item) for item in response.get("Rules", ())],
            }
        if operation == "DescribeTags":
            return {
                **response,
                "TagDescriptions": [
                    self._apply_tag_changes(item) for item in response.get("TagDescriptions", ())
                ],
            }
        if operation == "DescribeTargetHealth":
            planned = [
                _build_healthy_target(name)
                for name in self._targets.list_planned_targets(params["TargetGroupArn"])
            ]
            return {
                **response,
                "TargetHealthDescriptions": [*response.get("TargetHealthDescriptions", ()), *planned],
            }
        return response

    def _apply_listener_change(self, listener: dict[str, Any]) -> dict[str, Any]:
        return {**listener, **self._changes.get(listener["ListenerArn"], {})}

    def _apply_rule_change(self, rule: dict[str, Any]) -> dict[str, Any]:
        if not rule.get("IsDefault"):
            return {**rule, **self._changes.get(rule["RuleArn"], {})}
        # The default rule has the listener's default actions; its ARN contains the listener's.
        listener = rule["RuleArn"].replace(":listener-rule/", ":listener/").rpartition("/")[0]
        changed = self._changes.get(listener, {}).get("DefaultActions")
        return {**rule, "Actions": changed} if changed else rule

    def _apply_tag_changes(self, description: dict[str, Any]) -> dict[str, Any]:
        return {
            **description,
            "Tags": self._tags.apply_to(description["ResourceArn"], description.get("Tags", ())),
        }


def _build_healthy_target(name: str) -> dict[str, Any]:
    return {"Target": {"Id": name}, "TargetHealth": {"State": "healthy"}}
