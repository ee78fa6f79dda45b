"""Generated pages of the documentation cover everything that they describe."""

import re
from pathlib import Path

import pytest

from aws.policies import POLICIES
from cli.errors import ExitCode
from config.environment import EnvironmentSettings
from guards.limits import LIMITS
from ops.documentation.command_line import list_commands
from ops.documentation.external_scripts import ExternalScripts
from ops.documentation.layers import list_contracts
from ops.documentation.limits import list_sections
from ops.documentation.log_lines import list_failures, list_log_lines
from ops.documentation.markdown import Page, anchor, code, plain, table
from ops.documentation.settings import list_fields, list_names
from ops.documentation.subjects import generate_pages
from rbac.permissions import BUILTIN_ROLES, PERMISSIONS
from steps.kinds.registry import get_step_kinds
from web.api.openapi import get_public_schema
from web.api.reference import list_resources

ROOT = Path(__file__).resolve().parents[2]
# Links of Markdown to files, without those to other sites and inside a page.
LINK = re.compile(r"\]\((?!https?:|/|#)([^)#\s]+)")
CODE_PATH = re.compile(
    r"[\w/]+\.py\b|`[a-z_]+(?:/[a-z_]+)*/`|`(?:deployments|steps|delegates|catalog|inventory)/\S*`"
)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {path: page.text for path, page in generate_pages().items()}


def test_every_step_kind_has_a_page_with_its_fields(pages: dict[str, str]) -> None:
    for kind in get_step_kinds().values():
        page = pages[f"reference/steps/{kind.type}.md"]
        assert f"[`{kind.type}`]({kind.type}.md)" in pages["reference/steps/index.md"]
        assert [name for name in kind.required_fields if f"`{name}" not in page] == []


def test_every_field_of_a_step_has_a_description(pages: dict[str, str]) -> None:
    fields = {
        path: re.findall(r"^\| (`[\w.]+`) \|[^|]*\|[^|]*\|  \|$", text.partition("\n### ")[0], re.MULTILINE)
        for path, text in pages.items()
        if path.startswith("reference/steps/")
    }

    assert {path: names for path, names in fields.items() if names} == {}


def test_every_setting_is_listed_with_a_description(pages: dict[str, str]) -> None:
    page = pages["reference/settings.md"]

    assert len(list_fields()) == len(EnvironmentSettings.model_fields)
    assert [name for field in list_fields() for name in list_names(field) if f"`{name}`" not in page] == []
    assert [field.alias for field in list_fields() if not field.description] == []


def test_settings_that_production_needs_are_marked(pages: dict[str, str]) -> None:
    rows = [line for line in pages["reference/settings.md"].splitlines() if "required in production" in line]

    assert [
        name for name in EnvironmentSettings.REQUIRED_IN_PRODUCTION if not any(name in row for row in rows)
    ] == []


def test_every_permission_and_role_is_listed(pages: dict[str, str]) -> None:
    assert [
        identifier for identifier in PERMISSIONS if f"`{identifier}`" not in pages["reference/permissions.md"]
    ] == []
    assert [role.name for role in BUILTIN_ROLES if f"## {role.name}" not in pages["reference/roles.md"]] == []


def test_every_operation_of_the_api_has_a_section(pages: dict[str, str]) -> None:
    document = get_public_schema()
    described = {
        f"## {method.upper()} {path}" for path, methods in document["paths"].items() for method in methods
    }
    documented = {
        line
        for resource in list_resources()
        for line in pages[f"reference/api/{resource.tag}.md"].splitlines()
        if line.startswith("## ") and line != "## Types"
    }

    assert documented == described


def test_every_command_and_option_of_the_command_line_is_described(pages: dict[str, str]) -> None:
    page = pages["reference/command-line.md"]

    for path, command in list_commands():
        section = page.partition(f"\n## {path}\n")[2].partition("\n## ")[0]
        options = [param.opts[0] for param in command.params if param.opts[0].startswith("--")]
        assert command.help
        assert [option for option in options if f"`{option}`" not in section] == [], path
        assert [param.name for param in command.params if not param.help] == [], path
    assert [code for code in ExitCode if f"| {int(code)} |" not in page] == []


def test_every_limit_is_listed_in_a_section(pages: dict[str, str]) -> None:
    assert [name for names in list_sections().values() for name in names] == list(LIMITS)
    rows = pages["reference/limits.md"]
    assert [
        name for name, limit in LIMITS.items() if f"| {plain(limit.subject)} | {limit} |" not in rows
    ] == []


def test_every_contract_of_imports_has_a_section(pages: dict[str, str]) -> None:
    page = pages["contributing/layers.md"]

    assert [contract["name"] for contract in list_contracts() if f"## {contract['name']}" not in page] == []


def test_every_iam_action_is_listed(pages: dict[str, str]) -> None:
    actions = {action for policy in POLICIES for action in policy.actions}

    assert [action for action in actions if f"`{action}`" not in pages["reference/iam-policies.md"]] == []


def test_log_lines_are_read_from_the_code(pages: dict[str, str]) -> None:
    lines = {(line.text, line.level) for line in list_log_lines()}

    assert ("Service ‹name› reached steady state", "info") in lines
    assert (" Deployment Successful.", "success") in lines
    assert len(lines) > 200
    assert "Service ‹name› reached steady state" in pages["reference/log-lines.md"]


def test_failure_codes_are_read_from_the_code(pages: dict[str, str]) -> None:
    codes = {failure.code for failure in list_failures()}

    assert {"ALARM", "BAD_MANIFEST", "SUPERSEDED"} <= codes
    assert len(codes) > 40
    assert [code for code in codes if f"| `{code}` |" not in pages["reference/failure-codes.md"]] == []


def test_text_of_code_cannot_change_a_page() -> None:
    assert plain("a <+b.c> of `d_e` and f_g") == r"a \<+b.c\> of `d_e` and f\_g"
    assert code("`a`") == "`` `a` ``"
    assert table(("A",), [("b | c\nd",)]).splitlines()[-1] == r"| b \| c d |"
    assert anchor("GET /api/v1/orgs/{org}") == "get-apiv1orgsorg"
    assert Page("a.md", "A", ("b",)).text.startswith("# A\n\nb\n")


def test_inline_scripts_become_files() -> None:
    scripts = ExternalScripts()

    page = scripts.move('<script>go()</script><script type="application/json">{}</script>', "how-to/a/")

    [name] = scripts.files
    folder = "../../assets/javascripts/inline"
    assert page == f'<script src="{folder}/{name}"></script><script type="application/json">{{}}</script>'
    assert scripts.files[name] == "go()"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_pages_beside_the_site_lead_somewhere(name: str) -> None:
    targets = set(LINK.findall((ROOT / name).read_text()))

    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_pages_for_users_name_no_path_of_the_code(pages: dict[str, str]) -> None:
    docs = ROOT / "docs"
    texts = {path.relative_to(docs).as_posix(): path.read_text() for path in docs.rglob("*.md")} | pages
    users = {path: text for path, text in texts.items() if not path.startswith("contributing/")}

    assert {path: matches for path, text in users.items() if (matches := CODE_PATH.findall(text))} == {}
