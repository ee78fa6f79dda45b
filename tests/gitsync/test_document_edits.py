"""Edits of one document of a file, which keep the rest as it is."""

from typing import Any

import pytest

from catalog.manifests.yaml_drafts import NotEditable
from cli.errors import CliError
from cli.resources.kinds import KINDS
from cli.resources.stored import Key
from gitsync.proposals.document_edits import edit_document, read_spec
from tests.gitsync.conftest import ENVIRONMENT, PIPELINE, SERVICE

WEB = Key("Service", "default/demo", "web")
OTHER = "kind:   Environment # odd\nidentifier: 'odd'\nspec: {name:  Odd}\n\n\n"
FULL = """# The site.
kind: Service
identifier: web
spec:
  # Shown in lists.
  name: Web   # short
  description: ""
  variables:
    # In minutes.
    TIMEOUT: "10"
  artifact: {image: nginx, tag: "1.28"}
  manifests:
    # The task.
    - {identifier: task, kind: EcsTaskDefinition, store: Inline, content: "cpu: '256'"}
"""


def edit(text: str, key: Key = WEB, **values: Any) -> str:
    spec = read_spec(text, key, "default/demo")
    assert spec is not None
    return edit_document(text, key, "default/demo", spec | values)


def test_only_the_changed_lines_of_the_document_differ() -> None:
    text = f"{OTHER}---\n{FULL}---\n{ENVIRONMENT}"
    changed = edit(text, name="Site", variables={"TIMEOUT": "20"})
    assert changed == text.replace("name: Web ", "name: Site ").replace('"10"', '"20"')


def test_new_and_removed_values_are_written_without_defaults() -> None:
    changed = edit(FULL, description="A site", manifests=[], variables={"TIMEOUT": "10", "MODE": "fast"})
    assert 'description: "A site"' in changed
    assert '    TIMEOUT: "10"\n    MODE: fast\n' in changed
    assert "manifests: []" in changed
    assert "required_variables" not in changed
    assert "description" not in edit(SERVICE, name="Site")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_line_ends_and_the_end_of_the_file_stay(ends: str, last: str) -> None:
    text = (f"{OTHER}---\n{SERVICE}".removesuffix("\n") + last).replace("\n", ends)
    assert edit(text, name="Site") == text.replace("name: Web", "name: Site")


def test_the_yaml_of_a_pipeline_stays_a_block() -> None:
    key = Key("Pipeline", "default/demo", "release")
    spec = read_spec(PIPELINE, key, "default/demo")
    assert spec is not None
    text = f"{PIPELINE}---\n{OTHER}"
    changed = edit(text, key, yaml=spec["yaml"].replace("10m", "20m  # longer"))
    assert "longer" in changed
    assert edit(text, key, yaml=spec["yaml"].replace("10m", "20m")) == text.replace("10m", "20m")


def test_a_document_in_flow_style_becomes_a_block() -> None:
    key = Key("Infrastructure", "default/demo", "main", "test")
    changed = edit(ENVIRONMENT, key, cluster="other")
    assert read_spec(changed, key, "default/demo") == {
        **KINDS["Infrastructure"].complete_spec(
            {"environment": "test", "name": "Main", "connector": "aws", "region": "us-east-1", "cluster": "x"}
        ),
        "cluster": "other",
    }
    assert changed.startswith(ENVIRONMENT.partition("---")[0])


def test_what_cannot_be_edited_in_place_is_refused() -> None:
    assert read_spec(ENVIRONMENT, WEB, "default/demo") is None
    with pytest.raises(NotEditable):
        edit("--- {kind: Service, identifier: web, spec: {name: Web}}\n", name="Site")
    with pytest.raises(CliError):
        read_spec(f"{SERVICE}---\nkind: [\n", WEB, "default/demo")
