"""Checks of region and cluster of an infrastructure."""

import re
from collections.abc import Iterator
from typing import Final

from aws.regions import regions
from steps.expressions import BadExpressionError, has_expression, is_path, named_in, resolve

CLUSTER: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,254}\Z"
NOT_A_CLUSTER = "A cluster's name has letters, digits, - and _, 255 at most; an ARN is not a name."


def region_problem(region: str) -> str:
    """What is wrong with a region, or nothing: it becomes part of the address that is called."""
    known = {one.name for one in regions()}
    return "" if region in known else f"{region[:100] or 'Nothing'} is not a region of AWS."


def cluster_problem(cluster: str) -> str:
    """What is wrong with the name of a cluster, or nothing."""
    return "" if re.match(CLUSTER, cluster) else NOT_A_CLUSTER


def field_problems(region: str, cluster: str, *, is_dynamic: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with the fields of an infrastructure, as (field, sentence)."""
    if is_dynamic and not (has_expression(region) or has_expression(cluster)):
        yield "cluster", "Map region and cluster to outputs, such as <+provisioner.cluster_name>."
        return
    for field, value, problem_of in (
        ("region", region, region_problem),
        ("cluster", cluster, cluster_problem),
    ):
        if is_dynamic and has_expression(value):
            problem = _expression_problem(value)
        elif has_expression(value):
            problem = "An expression can stand here where the infrastructure is dynamically provisioned."
        else:
            problem = problem_of(value)
        if problem:
            yield field, problem


def _expression_problem(text: str) -> str:
    try:
        resolve(text, {}, later=lambda path: True)
    except BadExpressionError as bad:
        return bad.message
    for _, path in named_in(text):
        if not is_path(path):
            return f"<+{path[:100]}> is not a path such as <+provisioner.cluster_name>."
        if path.partition(".")[0] == "infra":
            return f"<+{path}> would name itself: map an output, such as <+provisioner.cluster_name>."
    return ""
