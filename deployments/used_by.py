"""Which pipelines refer to a service, an environment or an infrastructure."""

from collections.abc import Callable
from dataclasses import dataclass

from connectors.uses import StillUsed
from deployments.models import Environment, Infrastructure, Pipeline, Service
from deployments.pipelines import BadPipelineError, StageSpec, read_pipeline
from rbac.policy import Principal, visible_to

# Reading a pipeline takes milliseconds; a page does not read more of them than this.
MOST_READ = 500
MOST_NAMED = 5


@dataclass(frozen=True)
class UsedBy:
    """The pipelines that refer to something: what the reader may see by name, the rest as a number."""

    shown: tuple[Pipeline, ...] = ()
    hidden: int = 0

    def __bool__(self) -> bool:
        return bool(self.shown or self.hidden)

    def __str__(self) -> str:
        named = [f"pipeline {one.name}" for one in self.shown[:MOST_NAMED]]
        rest = len(self.shown) - len(named) + self.hidden
        return " and ".join(part for part in (", ".join(named), f"{rest} more" if rest else "") if part)


def used_by(thing: Service | Environment | Infrastructure, principal: Principal) -> UsedBy:
    """The pipelines with a stage that means this very thing."""
    found = pipelines_with(thing)
    seen = set(_seen(found, principal))
    shown = tuple(one for one in found if one.pk in seen)
    return UsedBy(shown, len(found) - len(shown))


def pipelines_with(thing: Service | Environment | Infrastructure, *, containing: str = "") -> list[Pipeline]:
    """The pipelines with a stage that means this very thing, of those whose text has `containing`."""
    owner, names = _asked(thing)
    hidden_by = _nearer(owner)
    rows = Pipeline.objects.filter(yaml__contains=owner.identifier).select_related("scope")
    rows = rows.filter(yaml__contains=containing)
    here = rows.filter(scope=owner.scope) | rows.filter(scope__path__startswith=f"{owner.scope.path}/")
    return [
        one
        for one in here.order_by("scope__path", "identifier")[:MOST_READ]
        if not hidden_by & set(one.scope.ancestor_paths()) and _names(one, names)
    ]


def refuse_used(thing: Service | Environment | Infrastructure, principal: Principal) -> None:
    """Do nothing where no pipeline means the thing. Raises `StillUsed`."""
    if found := used_by(thing, principal):
        raise StillUsed(
            f"{thing.name} is still used by {found}. Change that first, or say that you want this although "
            "it will no longer run."
        )


def _asked(
    thing: Service | Environment | Infrastructure,
) -> tuple[Service | Environment, Callable[[StageSpec], bool]]:
    if isinstance(thing, Service):
        return thing, lambda stage: stage.service == thing.identifier
    if isinstance(thing, Environment):
        return thing, lambda stage: stage.environment == thing.identifier
    environment = thing.environment
    return (
        environment,
        lambda stage: (stage.environment, stage.infrastructure) == (environment.identifier, thing.identifier),
    )


def _nearer(owner: Service | Environment) -> set[str]:
    """The scopes below that have a thing of the same name: their pipelines mean that one."""
    below = type(owner)._default_manager.filter(identifier=owner.identifier)
    paths = below.filter(scope__path__startswith=f"{owner.scope.path}/").values_list("scope__path", flat=True)
    return set(paths)


def _names(pipeline: Pipeline, is_meant: Callable[[StageSpec], bool]) -> bool:
    try:
        return any(is_meant(stage) for stage in read_pipeline(pipeline.yaml).stages)
    except BadPipelineError:
        return False


def _seen(found: list[Pipeline], principal: Principal) -> list[int]:
    rows = Pipeline.objects.filter(pk__in=[one.pk for one in found])
    return list(visible_to(principal, "core_pipeline_view", rows).values_list("pk", flat=True))
