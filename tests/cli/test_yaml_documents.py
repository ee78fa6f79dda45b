"""YAML documents: errors with their place, and texts that stay what they are."""

from pathlib import Path

import pytest

from cli.errors import CliError
from cli.resources.plans import get_key
from cli.resources.stored import Key
from cli.resources.yaml_documents import ResourceDocument, dump_document, load_documents

ENVIRONMENT = """kind: Environment
identifier: dev
spec:
  name: Development
  variables: {answer: yes, since: 2026-01-01, count: 3, on: true}
"""


def load(folder: Path, text: str) -> list[ResourceDocument]:
    path = folder / "resources.yaml"
    path.write_text(text)
    return load_documents([path], "default/demo")


def read_keys(folder: Path, text: str) -> list[Key]:
    return [get_key(document) for document in load(folder, text)]


def test_words_and_dates_are_texts_and_the_scope_has_a_default(tmp_path: Path) -> None:
    [document] = load(tmp_path, ENVIRONMENT)

    assert document.scope == "default/demo"
    variables = document.spec["variables"]
    assert variables == {"answer": "yes", "since": "2026-01-01", "count": 3, "on": True}


def test_folders_are_read_in_the_order_of_their_files(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(ENVIRONMENT.replace("dev", "second"))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "a.yaml").write_text(f"---\n{ENVIRONMENT}---\n{ENVIRONMENT.replace('dev', 'other')}")
    (tmp_path / "notes.txt").write_text("{")

    identifiers = [document.identifier for document in load_documents([tmp_path], "")]

    assert identifiers == ["dev", "other", "second"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [", "resources.yaml, line 1: "),
        ("a: 1\na: 2", "resources.yaml, line 2: the key a is there twice"),
        (f"{ENVIRONMENT}---\n- a", "document 2, line 7: must be a mapping"),
        (ENVIRONMENT.replace("spec", "specs"), "document 1, line 3: unknown key specs"),
        (ENVIRONMENT.replace("kind: Environment", "kind:"), "line 1: kind is missing"),
        ("kind: Environment\nidentifier: dev", "spec is missing"),
        (ENVIRONMENT.replace("Environment", "Enviroment"), "line 1: unknown kind Enviroment"),
        (ENVIRONMENT.replace("variables", "variable"), "line 5: unknown key variable"),
        (ENVIRONMENT.replace("name: D", "description: D"), "spec.name is missing"),
        (f"scope: a/b/c\n{ENVIRONMENT}", "line 1: must be ORGANIZATION or ORGANIZATION/PROJECT"),
        ("", "There is no document"),
    ],
)
def test_an_error_names_file_document_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CliError) as caught:
        read_keys(tmp_path, text)

    assert message in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "1.10",
        "yes",
        "null",
        "2026-01-01",
        "a: b",
        "truecolor",
        "False]",
        "line\n  indented\n",
        "next\x85line",
        "ends \n",
        "\u202e\x1b[1m",
        "<+input>",
    ],
)
def test_a_written_text_is_read_unchanged(tmp_path: Path, text: str) -> None:
    spec = {"name": text, "variables": {"same": text}}

    [document] = load(tmp_path, dump_document("Environment", "default/demo", "dev", spec))

    assert document.spec == spec
