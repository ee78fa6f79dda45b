"""Fragment of the visual editor: outline and form."""

from typing import Any, Final

from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_POST

from aws.regions import list_regions
from catalog.manifests.yaml_drafts import NotEditable, YamlDraft
from catalog.models import Service
from connectors.models import Connector
from connectors.queries import list_connectors
from guards.limits import SPEC_BYTES
from pipelines.definition.stage_targets import filter_nearest, list_infrastructures_near
from pipelines.editor.commands import APPLY, CommandResult, run_command
from pipelines.editor.forms import EditorForm, build_form
from pipelines.editor.outline import build_outline
from pipelines.editor.provisioners import get_provisioner_name, has_provisioner, list_provisioners
from pipelines.editor.suggestions import MAX_SUGGESTIONS
from pipelines.editor.target_fields import EditorChoices
from pipelines.editor.tree_paths import get_node, parse_path
from pipelines.operations.pipelines import check_pipeline
from pipelines.pages.editor_drafts import (
    INFRASTRUCTURE_CONNECTOR,
    get_restored_draft,
    leave_editor,
    list_editor_nouns,
)
from pipelines.pages.stage_infrastructures import (
    CREATE_INFRASTRUCTURE,
    build_infrastructure_form,
    create_stage_infrastructure,
)
from rbac.models import Scope
from rbac.policy import Principal, filter_visible, list_permitted_scopes
from steps.strategies.registry import list_strategy_titles
from web.forms.drafts import CREATE_NAME
from web.forms.pages import PageRequest, require_sign_in

VIEW: Final = "core_pipeline_view"
_SCOPE_PREFIXES: Final[dict[str, str]] = {Scope.Kind.ACCOUNT: "account.", Scope.Kind.ORGANIZATION: "org."}


@require_sign_in
@require_POST
def edit_visually(request: PageRequest) -> HttpResponse:
    """Apply one command to an unsaved pipeline text, and render its stages and steps."""
    scope = get_object_or_404(
        list_permitted_scopes(request.user, VIEW), path=request.POST.get("in_scope", "")
    )
    data = request.POST
    if CREATE_NAME in data:
        return leave_editor(request, scope)
    text = data.get("yaml", "").replace("\r\n", "\n")
    draft = get_restored_draft(request)
    words = _build_command_data(draft.data) | {"do": APPLY} if draft else _build_command_data(data)
    if words.get("do") == CREATE_INFRASTRUCTURE:
        outcome, place = create_stage_infrastructure(request, scope, text, words)
    else:
        outcome, place = run_command(text, words), None
    content = _build_context(outcome, scope, request.user, words)
    if (form := content.get("form")) and form.kind == "stage":
        content["new_place"] = place or build_infrastructure_form(request, scope, form, words)
        stage = get_node(YamlDraft(outcome.text).value, parse_path(form.path))
        content |= {"provisioners": list_provisioners(), "provisioner": get_provisioner_name(stage)}
        content["provisions"] = has_provisioner(stage)
        content["opens_place"] = draft is not None and draft.field == INFRASTRUCTURE_CONNECTOR
    content["new_nouns"] = list_editor_nouns(request, scope) if content.get("form") else ()
    content |= {"new_text": outcome.text if outcome.text != text else None, "outcome": outcome}
    return render(request, "pipelines/_visual.html", content)


def _build_command_data(data: QueryDict) -> dict[str, str]:
    return {name: str(value)[: int(SPEC_BYTES)] for name, value in data.items() if name != "yaml"}


def _build_context(
    outcome: CommandResult, scope: Scope, person: Principal, data: dict[str, str]
) -> dict[str, Any]:
    try:
        tree = YamlDraft(outcome.text).value
    except NotEditable as refused:
        return {"unreadable": str(refused)}
    problems = check_pipeline(outcome.text, scope, person)["errors"]
    return {
        "rows": build_outline(tree, problems),
        "form": _build_open_form(tree, outcome, list_editor_choices(scope, person), data),
        "strategies": list_strategy_titles(),
        "is_pipeline": isinstance(tree, dict) and isinstance(tree.get("pipeline"), dict),
        "pipeline_problems": [
            problem for problem in problems if not str(problem["path"]).startswith("pipeline.stages.")
        ],
        "count": len(problems),
    }


def _build_open_form(
    tree: Any, outcome: CommandResult, near: EditorChoices, data: dict[str, str]
) -> EditorForm | None:
    if not outcome.open_path:
        return None
    try:
        return build_form(
            tree, parse_path(outcome.open_path), near, data if outcome.errors else None, outcome.errors
        )
    except NotEditable:
        return None


def list_editor_choices(scope: Scope, person: Principal) -> EditorChoices:
    """Return the visible services, infrastructures and connectors that a pipeline of a scope can use."""
    near = filter_nearest(Service.objects.all(), scope)
    services = filter_visible(person, "core_service_view", near)
    places = filter_visible(person, "core_environment_view", list_infrastructures_near(scope))
    infrastructures = places.select_related("environment")
    return EditorChoices(
        services=[
            (service.identifier, service.name)
            for service in services.order_by("identifier")[:MAX_SUGGESTIONS]
        ],
        infrastructures=[
            (
                f"{infrastructure.environment.identifier}/{infrastructure.identifier}",
                f"{infrastructure.environment.name} / {infrastructure.name}",
            )
            for infrastructure in infrastructures.order_by("environment__identifier", "identifier")[
                :MAX_SUGGESTIONS
            ]
        ],
        connectors=_list_connectors(scope, person),
        regions=[(region.name, f"{region.title} ({region.name})") for region in list_regions()],
    )


def _list_connectors(scope: Scope, person: Principal) -> list[tuple[str, str]]:
    """Return the connectors for manifests by reference; a shadowed one with the prefix of its scope."""
    rows = list_connectors(scope, Connector.Kind.GIT, Connector.Kind.AWS)[: int(MAX_SUGGESTIONS)]
    usable = filter_visible(
        person, "core_connector_access", Connector.objects.filter(pk__in=[row.pk for row in rows])
    )
    keys, identifiers, choices = set(usable.values_list("pk", flat=True)), set[str](), []
    for connector in rows:
        level = _SCOPE_PREFIXES.get(connector.scope.kind, "") if connector.identifier in identifiers else ""
        identifiers.add(connector.identifier)
        if connector.pk in keys:
            choices.append(
                (f"{level}{connector.identifier}", f"{connector.name} ({connector.get_kind_display()})")
            )
    return choices
