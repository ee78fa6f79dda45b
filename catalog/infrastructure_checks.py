"""Checks of the region and the cluster of an infrastructure."""

import re
from collections.abc import Iterator
from typing import Final

from aws.regions import list_regions
from steps.expressions import BadExpressionError, find_paths, has_expression, is_path, resolve_expressions

CLUSTER_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,254}\Z"
CLUSTER_ADVICE = "Enter the cluster name, not the ARN: up to 255 letters, digits, - and _."


def describe_region_problem(region: str) -> str:
    """Describe the problem with a region; empty if it is valid. The region becomes part of a host name."""
    names = {item.name for item in list_regions()}
    return "" if region in names else f"{region[:100] or 'Nothing'} is not an AWS region."


def describe_cluster_problem(cluster: str) -> str:
    """Describe the problem with a cluster name; empty if it is valid."""
    return "" if re.match(CLUSTER_PATTERN, cluster) else CLUSTER_ADVICE


def list_field_problems(region: str, cluster: str, *, is_dynamic: bool) -> Iterator[tuple[str, str]]:
    """Return the problems with the fields of an infrastructure, as (field, message)."""
    if is_dynamic and not (has_expression(region) or has_expression(cluster)):
        yield "cluster", "Map region and cluster to outputs, such as <+provisioner.cluster_name>."
        return
    for field, value, problem_of in (
        ("region", region, describe_region_problem),
        ("cluster", cluster, describe_cluster_problem),
    ):
        if is_dynamic and has_expression(value):
            problem = _describe_expression_problem(value)
        elif has_expression(value):
            problem = "Expressions are allowed only for dynamically provisioned infrastructure."
        else:
            problem = problem_of(value)
        if problem:
            yield field, problem


def _describe_expression_problem(text: str) -> str:
    try:
        resolve_expressions(text, {}, is_deferred=lambda path: True)
    except BadExpressionError as error:
        return error.message
    for _, path in find_paths(text):
        if not is_path(path):
            return f"<+{path[:100]}> is not a path such as <+provisioner.cluster_name>."
        if path.partition(".")[0] == "infra":
            return f"<+{path}> refers to itself: map an output, such as <+provisioner.cluster_name>."
    return ""
