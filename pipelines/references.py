"""Which pipelines refer to a service, an environment or an infrastructure."""

from collections.abc import Callable

from catalog.models import Environment, Infrastructure, Service
from catalog.usage import UsedBy
from pipelines.definition.parser import BadPipelineError, StageSpec, read_pipeline
from pipelines.models import Pipeline
from rbac.policy import Principal, visible_to

# Reading a pipeline takes milliseconds; a page does not read more of them than this.
MOST_READ = 500


def find_pipelines_using(thing: Service | Environment | Infrastructure, principal: Principal) -> UsedBy:
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
