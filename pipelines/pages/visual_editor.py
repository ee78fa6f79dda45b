"""The visual side of the pipeline editor: stages and steps by forms, in step with the text."""

from typing import Any, Final

from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_POST

from aws.regions import regions
from catalog.manifests.yaml_draft import Draft, NotEditable
from catalog.models import Infrastructure, Service
from connectors.models import Connector
from connectors.queries import connectors_for
from guards.limits import SPEC_BYTES
from pipelines.editor.commands import Outcome, carry_out
from pipelines.editor.forms import OpenForm, form_at
from pipelines.editor.guide import MOST_NAMES
from pipelines.editor.outline import outline
from pipelines.editor.places import found, path_from
from pipelines.editor.provisioners import provisioner_of, provisioners, provisions
from pipelines.editor.targets import Nearby
from pipelines.operations.pipelines import checked
from pipelines.pages.stage_places import CREATE_PLACE, create_place, place_form
from rbac.models import Scope
from rbac.policy import Principal, scopes_where, visible_to
from steps.strategies.base import known_strategies
from web.pages import PageRequest, page

VIEW: Final = "core_pipeline_view"
_LEVELS: Final[dict[str, str]] = {Scope.Kind.ACCOUNT: "account.", Scope.Kind.ORGANIZATION: "org."}


@page
@require_POST
def edit_visually(request: PageRequest) -> HttpResponse:
    """This will make one change to the text that is being written, and show its stages and steps."""
    scope = get_object_or_404(scopes_where(request.user, VIEW), path=request.POST.get("in_scope", ""))
    given = request.POST
    text = given.get("yaml", "").replace("\r\n", "\n")
    words = _words(given)
    if given.get("do") == CREATE_PLACE:
        outcome, place = create_place(request, scope, text, words)
    else:
        outcome, place = carry_out(text, words), None
    content = _shown(outcome, scope, request.user, words)
    if (form := content.get("form")) and form.kind == "stage":
        content["new_place"] = place or place_form(request, scope, form, words)
        stage = found(Draft(outcome.text).value, path_from(form.at))
        content |= {"provisioners": provisioners(), "provisioner": provisioner_of(stage)}
        content["provisions"] = provisions(stage)
    content |= {"new_text": outcome.text if outcome.text != text else None, "outcome": outcome}
    return render(request, "pipelines/_visual.html", content)


def _words(given: QueryDict) -> dict[str, str]:
    return {name: str(value)[: int(SPEC_BYTES)] for name, value in given.items() if name != "yaml"}


def _shown(outcome: Outcome, scope: Scope, person: Principal, given: dict[str, str]) -> dict[str, Any]:
    try:
        tree = Draft(outcome.text).value
    except NotEditable as refused:
        return {"unreadable": str(refused)}
    problems = checked(outcome.text, scope, person)["errors"]
    return {
        "rows": outline(tree, problems),
        "form": _form(tree, outcome, nearby(scope, person), given),
        "strategies": sorted(known_strategies()),
        "is_pipeline": isinstance(tree, dict) and isinstance(tree.get("pipeline"), dict),
        "others": [one for one in problems if not str(one["path"]).startswith("pipeline.stages.")],
        "count": len(problems),
    }


def _form(tree: Any, outcome: Outcome, near: Nearby, given: dict[str, str]) -> OpenForm | None:
    if not outcome.open:
        return None
    try:
        return form_at(tree, path_from(outcome.open), near, given if outcome.errors else None, outcome.errors)
    except NotEditable:
        return None


def nearby(scope: Scope, person: Principal) -> Nearby:
    """The services and the places that a pipeline of a scope can name and that a person may see."""
    paths = scope.ancestor_paths()
    services = visible_to(person, "core_service_view", Service.objects.filter(scope__path__in=paths))
    places = Infrastructure.objects.filter(environment__scope__path__in=paths)
    shown = visible_to(person, "core_environment_view", places).select_related("environment")
    return Nearby(
        services=[(one.identifier, one.name) for one in services.order_by("identifier")[:MOST_NAMES]],
        places=[
            (f"{one.environment.identifier}/{one.identifier}", f"{one.environment.name} / {one.name}")
            for one in shown.order_by("environment__identifier", "identifier")[:MOST_NAMES]
        ],
        connectors=_connectors(scope, person),
        regions=[(one.name, f"{one.title} ({one.name})") for one in regions()],
    )


def _connectors(scope: Scope, person: Principal) -> list[tuple[str, str]]:
    """The connectors that lead to manifests, as steps name them; a farther namesake by its level."""
    rows = connectors_for(scope, Connector.Kind.GIT, Connector.Kind.AWS)[: int(MOST_NAMES)]
    usable = visible_to(
        person, "core_connector_access", Connector.objects.filter(pk__in=[one.pk for one in rows])
    )
    keys, seen, found = set(usable.values_list("pk", flat=True)), set[str](), []
    for one in rows:
        level = _LEVELS.get(one.scope.kind, "") if one.identifier in seen else ""
        seen.add(one.identifier)
        if one.pk in keys:
            found.append((f"{level}{one.identifier}", f"{one.name} ({one.get_kind_display()})"))
    return found
