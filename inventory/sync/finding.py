"""What service instances can be narrowed to, on the page and in the API alike."""

from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from django.db.models import Q

from guards.limits import NAME_CHARACTERS
from guards.text import text_fault
from inventory.models.instances import ContainerInstance, SeenService, ServiceInstance
from web.matching import holds
from web.problems import BadInput

# What is asked for by its name, and the column that holds it.
EXACT: Final[Mapping[str, str]] = {
    "environment": "seen__infrastructure__environment__identifier",
    "infrastructure": "seen__infrastructure__identifier",
    "ecs_service": "seen__name",
    "region": "cluster__region",
    "cluster": "cluster__cluster",
    "image": "image",
    "digest": "digest",
    "task_definition": "task_definition",
    "ec2_instance": "container_instance__ec2_instance",
}
CHOSEN: Final = ("status", "origin", "stop_code")
LONGEST: Final = 512


def narrowing(asked: Mapping[str, str]) -> Q:
    """The condition of these parameters; what is empty narrows nothing. Raises `BadInput`."""
    given = {name: _text(asked, name) for name in (*EXACT, *CHOSEN, "execution", "q")}
    found = Q()
    for name, column in EXACT.items():
        found &= Q(**{column: given[name]}) if given[name] else Q()
    for name, condition in _CONDITIONS.items():
        found &= condition(given[name]) if given[name] else Q()
    return found


def _text(asked: Mapping[str, str], name: str) -> str:
    text = asked.get(name, "").strip()
    if text_fault(text):
        raise _bad(name, "may hold no NUL and no half of a character")
    if len(text) > LONGEST:
        raise _bad(name, f"may have {LONGEST} characters at most")
    return text


def _origin(text: str) -> Q:
    known = ServiceInstance.Origin.values
    if text not in known:
        raise _bad("origin", f"is one of {', '.join(known)}")
    return Q(origin=text)


def _execution(text: str) -> Q:
    try:
        return Q(execution=UUID(text))
    except ValueError as error:
        raise _bad("execution", "is the id of an execution") from error


def _search(text: str) -> Q:
    """What people know of a task: its image, its id, its ECS service, its machine, why it stopped."""
    text = text[: int(NAME_CHARACTERS)]
    return (
        Q(task_id__startswith=text)
        # Asked of the few services and machines first, not of each task with its own joined to it.
        | Q(seen__in=SeenService.objects.filter(name__icontains=text).values("pk"))
        | Q(container_instance__in=ContainerInstance.objects.filter(ec2_instance=text).values("pk"))
        | Q(holds("image", text))
        # Most tasks run, and have no reason to be searched.
        | Q(holds("stopped_reason", text), stopped_reason__gt="")
    )


_CONDITIONS: Final[Mapping[str, Callable[[str], Q]]] = {
    "status": lambda text: Q(last_status=text.upper()),
    "stop_code": lambda text: Q(stop_code=text),
    "origin": _origin,
    "execution": _execution,
    "q": _search,
}


def _bad(name: str, message: str) -> BadInput:
    return BadInput("The input is not valid.", errors=[{"path": name, "message": message}])
