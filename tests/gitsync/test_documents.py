"""Files of a repository: their documents, and what is refused before a value is built from it."""

import pytest

from gitsync.documents import parse_files
from guards.limits import GIT_SYNC_DOCUMENTS
from rbac.models import Scope
from tests.gitsync.conftest import ENVIRONMENT, SERVICE

PROJECT = Scope(path="account/default/demo")
DEEP = "[" * 60 + "]" * 60
BOMB = "a: &a [1, 2]\nb: &b [*a, *a]\nc: [*b, *b]\n"


def test_documents_come_from_yaml_files_and_belong_to_the_scope() -> None:
    parsed = parse_files({"a/b.yml": ENVIRONMENT, "c.yaml": SERVICE, "d.md": "kind: ["}, PROJECT)
    assert parsed.faults == ()
    assert [(document.kind, document.scope) for document in parsed.documents] == [
        ("Environment", "default/demo"),
        ("Infrastructure", "default/demo"),
        ("Service", "default/demo"),
    ]


@pytest.mark.parametrize(
    ("path", "written", "scope"),
    [
        ("account/accounting", "", "accounting"),
        ("account/accounting", "scope: accounting/shop\n", "accounting/shop"),
        ("account/accounting", "scope: account/accounting/shop/\n", "accounting/shop"),
        ("account", "", ""),
        ("account", "scope: account\n", ""),
        ("account", "scope: default/demo\n", "default/demo"),
    ],
)
def test_a_document_belongs_to_a_scope_or_below_it(path: str, written: str, scope: str) -> None:
    parsed = parse_files({"a.yaml": f"{written}{SERVICE}"}, Scope(path=path))
    assert parsed.faults == ()
    assert [document.scope for document in parsed.documents] == [scope]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("kind: [\n", 2, 1, "did not find expected node content"),
        (BOMB, 2, 8, "in place of the alias *a"),
        (f"kind: Service\nspec: {DEEP}", 2, 46, "40 levels"),
        ("a: [" + "1, " * 20_000 + "]", 1, None, "20,000 values"),
        (f"scope: other/elsewhere\n{ENVIRONMENT}", 1, 1, "other/elsewhere is outside of default/demo"),
        (f"scope: default\n{ENVIRONMENT}", 1, 1, "default is outside of default/demo"),
        (f"scope: default/demonstration\n{ENVIRONMENT}", 1, 1, "is outside of"),
        (f"scope: account\n{ENVIRONMENT}", 1, 1, "account is outside of default/demo"),
        (f"{SERVICE}---\n{SERVICE}", 7, 1, "is also in a.yaml"),
        (SERVICE.replace("kind: Service", "kind: !!python/object/apply:os.system [id]"), 1, 7, "constructor"),
        (SERVICE.replace("Service", "Secret"), 1, 1, "unknown kind Secret"),
        (f"{SERVICE}  password: x\n", 6, 3, "unknown key password"),
        ("\0", 1, 1, "NUL"),
        (f"{SERVICE}  description: Gr\ufffd\ufffde", 6, 18, "UTF-8"),
    ],
)
def test_a_faulty_file_is_refused_with_its_place(
    text: str, line: int, column: int | None, message: str
) -> None:
    (fault,) = parse_files({"a.yaml": text, "b.yaml": ENVIRONMENT}, PROJECT).faults
    assert (fault.file, fault.line) == ("a.yaml", line)
    assert column in (None, fault.column)
    assert message in fault.message


def test_two_files_may_not_have_the_same_resource() -> None:
    (fault,) = parse_files({"a.yaml": SERVICE, "b.yaml": SERVICE}, PROJECT).faults
    assert (fault.file, "is also in a.yaml, document 1, line 1" in fault.message) == ("b.yaml", True)


def test_a_sync_has_no_more_documents_than_the_limit() -> None:
    half = GIT_SYNC_DOCUMENTS // 2 + 1
    texts = {
        f"{name}.yaml": "---\n".join(SERVICE.replace("web", f"{name}{number}") for number in range(half))
        for name in ("a", "b")
    }
    (fault,) = parse_files(texts, PROJECT).faults
    assert "500 documents" in fault.message


def test_the_name_of_a_file_may_not_mislead_a_terminal() -> None:
    (fault,) = parse_files({"a\x1b[2J.yaml": SERVICE}, PROJECT).faults
    assert "\x1b" not in fault.file
