"""What pipelines mean for the file store: whose steps bring a manifest that is this file."""

from collections.abc import Iterator

from catalog.manifests.file_references import is_touched
from connectors.models import FileNode
from connectors.uses import Thing, Uses, uses
from pipelines.definition.parser import StepSpec
from pipelines.definition.step_sources import files_of
from pipelines.usage import by_pipelines
from rbac.models import Scope
from rbac.policy import Principal


@uses
def pipelines_with(thing: Thing, principal: Principal) -> Uses:
    """The pipelines with a step that runs this file, or what lies in this folder."""
    if not isinstance(thing, FileNode):
        return Uses()

    def names(scope: Scope, steps: Iterator[StepSpec]) -> bool:
        refs = (ref for step in steps for ref in files_of(step.type, step.spec))
        return any(is_touched(ref, scope, thing) for ref in refs)

    # The first folder of its path.
    begin = "/" + thing.path.split("/")[1]
    return by_pipelines(thing.scope, begin, names, principal)
