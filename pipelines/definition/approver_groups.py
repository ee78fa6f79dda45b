"""User groups that approval steps reference."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from pipelines.definition.parser import PipelineSpec
from pipelines.definition.stage_targets import ReferenceProblem, build_step_path
from rbac.models import Scope, UserGroup
from steps.expressions import has_expression
from steps.kinds.approval import APPROVAL_TYPE

_ANCESTOR_LEVELS = {"account": 0, "org": 1}


def find_groups(scope: Scope, names: Iterable[str]) -> tuple[list[UserGroup], list[str]]:
    """Return the groups with these names, and the names without a group.

    A bare name refers to the nearest scope with such a group; account.name and org.name refer to the account
    or the organization only.
    """
    places = list(scope.ancestors_and_self())
    groups, missing = [], []
    for name in names:
        group = _find_group(name, places)
        (missing.append(name) if group is None else groups.append(group))
    return groups, missing


def list_unknown_groups(pipeline: PipelineSpec, scope: Scope) -> Iterator[ReferenceProblem]:
    """Return the missing groups of approval steps, each with the most similar name."""
    for number, stage in enumerate(pipeline.stages):
        for step in stage.steps:
            if step.type != APPROVAL_TYPE:
                continue
            approvers = step.spec.get("approvers", {})
            names = [name for name in approvers.get("userGroups", ()) if not has_expression(name)]
            for name in find_groups(scope, names)[1]:
                place = f"{build_step_path(number, step)}.spec.approvers"
                yield ReferenceProblem(
                    place, f"step {step.identifier}: {describe_unknown_group(name, scope)}"
                )


def describe_unknown_group(name: str, scope: Scope) -> str:
    """Return the message for a missing group, with the most similar name."""
    identifiers = UserGroup.objects.filter(scope__in=scope.ancestors_and_self()).values_list(
        "identifier", flat=True
    )
    near = get_close_matches(name.rpartition(".")[2], list(identifiers), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"no user group {name} in {scope.path} or above it{hint}"


def _find_group(name: str, places: list[Scope]) -> UserGroup | None:
    level, _, identifier = name.partition(".")
    if identifier and level in _ANCESTOR_LEVELS:
        places, name = places[_ANCESTOR_LEVELS[level] : _ANCESTOR_LEVELS[level] + 1], identifier
    groups = {group.scope_id: group for group in UserGroup.objects.filter(scope__in=places, identifier=name)}
    return next((groups[place.pk] for place in reversed(places) if place.pk in groups), None)
