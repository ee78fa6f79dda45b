"""Filters of service instances for the page and the API."""

from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from django.db.models import Q

from guards.limits import NAME_CHARACTERS
from guards.text import find_text_problem
from inventory.models.instances import ContainerInstance, EcsServiceRecord, ServiceInstance
from web.http.problems import BadInput
from web.search_filters import contains_text

# The column of each exact filter.
EXACT_FILTERS: Final[Mapping[str, str]] = {
    "environment": "ecs_service__infrastructure__environment__identifier",
    "infrastructure": "ecs_service__infrastructure__identifier",
    "ecs_service": "ecs_service__name",
    "region": "cluster__region",
    "cluster": "cluster__cluster",
    "image": "image",
    "digest": "digest",
    "task_definition": "task_definition",
    "ec2_instance": "container_instance__ec2_instance",
}
CHOICE_FILTERS: Final = ("status", "origin", "stop_code")
MAX_FILTER_LENGTH: Final = 512


def build_instance_filter(parameters: Mapping[str, str]) -> Q:
    """Build the condition of these parameters; empty ones match all. Raises `BadInput`."""
    texts = {
        name: _read_text(parameters, name) for name in (*EXACT_FILTERS, *CHOICE_FILTERS, "execution", "q")
    }
    combined = Q()
    for name, column in EXACT_FILTERS.items():
        combined &= Q(**{column: texts[name]}) if texts[name] else Q()
    for name, condition in _FILTERS.items():
        combined &= condition(texts[name]) if texts[name] else Q()
    return combined


def _read_text(parameters: Mapping[str, str], name: str) -> str:
    text = parameters.get(name, "").strip()
    if find_text_problem(text):
        raise _build_filter_error(name, "must not contain NUL characters or unpaired surrogates")
    if len(text) > MAX_FILTER_LENGTH:
        raise _build_filter_error(name, f"must have at most {MAX_FILTER_LENGTH} characters")
    return text


def _filter_by_origin(text: str) -> Q:
    origins = ServiceInstance.Origin.values
    if text not in origins:
        raise _build_filter_error("origin", f"must be one of {', '.join(origins)}")
    return Q(origin=text)


def _filter_by_execution(text: str) -> Q:
    try:
        return Q(execution=UUID(text))
    except ValueError as error:
        raise _build_filter_error("execution", "must be the ID of an execution") from error


def _filter_by_text(text: str) -> Q:
    """Search image, task id, ECS service, EC2 instance and stop reason."""
    text = text[: int(NAME_CHARACTERS)]
    return (
        Q(task_id__startswith=text)
        # Subqueries on the small tables are faster than joins for each task.
        | Q(ecs_service__in=EcsServiceRecord.objects.filter(name__icontains=text).values("pk"))
        | Q(container_instance__in=ContainerInstance.objects.filter(ec2_instance=text).values("pk"))
        | Q(contains_text("image", text))
        # Running tasks have no reason.
        | Q(contains_text("stopped_reason", text), stopped_reason__gt="")
    )


_FILTERS: Final[Mapping[str, Callable[[str], Q]]] = {
    "status": lambda text: Q(last_status=text.upper()),
    "stop_code": lambda text: Q(stop_code=text),
    "origin": _filter_by_origin,
    "execution": _filter_by_execution,
    "q": _filter_by_text,
}


def _build_filter_error(name: str, message: str) -> BadInput:
    return BadInput("The input is not valid.", errors=[{"path": name, "message": message}])
