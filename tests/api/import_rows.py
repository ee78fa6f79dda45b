"""Every named address of imports from other tools."""

from dataclasses import asdict
from typing import Any

from pipelines.imports.proposals import ImportSpec, build_proposal
from tests.api.requests import Ask, Row, add_scope, get
from tests.api.required_access import Anywhere, Makes, Needs
from tests.api.sample_project import World
from tests.pipelines.imports.sample_projects import ecspresso_files, import_spec

# What an import of a service into a new environment creates, and uses.
_ALSO = (
    "core_pipeline_edit",
    "core_environment_edit",
    "core_service_access",
    "core_environment_access",
    "core_connector_access",
)


def build_spec(world: World) -> ImportSpec:
    return import_spec(ecspresso_files(), connector=world.connector.identifier)


def preview_body(world: World) -> dict[str, Any]:
    spec = build_spec(world)
    files = [{"path": name, "content": text} for name, text in spec.files.items()]
    return add_scope(**{**asdict(spec), "files": files})(world)


def import_body(world: World) -> dict[str, Any]:
    return {**preview_body(world), "digest": build_proposal(build_spec(world)).digest}


def import_form(world: World) -> dict[str, Any]:
    spec = build_spec(world)
    texts = "".join(f"=== {name}\n{text}\n" for name, text in spec.files.items())
    return {
        "tool": spec.tool,
        "in_scope": world.scope.path,
        "texts": texts,
        "environment": spec.environment,
        "connector": spec.connector,
    }


IMPORTS: dict[str, Row] = {
    "import": Row(
        (
            get(Anywhere("core_service_edit")),
            Ask("post", Makes("core_service_edit", 200), body=import_form, is_form=True),
        )
    ),
    "api-import-preview": Row((Ask("post", Needs("core_service_edit", also=_ALSO), body=preview_body),)),
    "api-imports": Row((Ask("post", Needs("core_service_edit", 201, also=_ALSO), body=import_body),)),
}
