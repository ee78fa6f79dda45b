"""Whatever a name, a tag or a token holds: it stays one word of the shell and one value of the JSON."""

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from delegates.install import DelegateSpecFiles, InvalidSpec, SpecProxy, SpecRequest, lint_spec, write_spec
from delegates.install.plan import PLACEHOLDERS
from tests.delegates.install.spec_variants import MATRIX, build_request

HOSTILE_TEXTS = (
    "'; rm -rf ~ #",
    '"$(id)"',
    "`id`",
    "$HOME ${x} $$",
    "a\\",
    "-v",
    "--privileged",
    "é 漢字 🚢",
    "<A>",
    "<+secrets>",
    "file:///etc/passwd",
    "{{ x }}",
    "!!python/object",
    "yes",
    "a: b # c",
)
texts = st.one_of(
    st.sampled_from(HOSTILE_TEXTS), st.text(st.characters(codec="utf-8"), min_size=1, max_size=64)
)


def try_spec(request: SpecRequest) -> DelegateSpecFiles | None:
    """Return the spec, or None if the request is refused."""
    try:
        return write_spec(request)
    except InvalidSpec:
        return None


def read_variables(spec: DelegateSpecFiles) -> dict[str, str]:
    (container,) = json.loads(json.dumps(dict(spec.task_definition)))["containerDefinitions"]
    return {variable["name"]: variable["value"] for variable in container["environment"]}


@given(st.sampled_from(MATRIX), texts, st.lists(texts, max_size=3), texts)
@example(MATRIX[0], HOSTILE_TEXTS[0], [HOSTILE_TEXTS[1]], HOSTILE_TEXTS[2])
@example(MATRIX[-1], "a\nb", [], "x")
@example(MATRIX[0], "PUT_YOUR_NAME", ["<A>"], "<A>")
def test_documents_keep_every_value_and_aws_takes_them(
    request: SpecRequest, name: str, tags: list[str], token: str
) -> None:
    spec = try_spec(replace(request, name=name, tags=tuple(tags), token=token))
    if spec is None:
        return
    values = read_variables(spec)
    assert values.get("HARNESS_NAME", values.get("DELEGATE_NAME")) == name
    assert values.get("HARNESS_TAGS", values.get("DELEGATE_TAGS", "")) == ",".join(tags)
    if not request.uses_secret:
        assert values.get("HARNESS_TOKEN", values.get("DELEGATE_TOKEN")) == token
    for file in spec.files:
        assert spec.files[file].isascii() or file == "delegate-token.txt"
    placeholder_values = {
        holder for placeholders in PLACEHOLDERS.values() for holder in vars(placeholders).values()
    }
    if not placeholder_values & {name, token, *tags}:
        assert lint_spec(spec.task_definition, spec.service) == []


@given(st.sampled_from(MATRIX), texts, texts)
def test_commands_are_the_same_words_whatever_the_delegate_is_called(
    request: SpecRequest, name: str, token: str
) -> None:
    spec, usual = try_spec(replace(request, name=name, token=token)), write_spec(request)
    if spec is None:
        return
    assert len(spec.commands) == len(usual.commands)
    for command, other in zip(spec.commands, usual.commands, strict=True):
        assert len(shlex.split(command.command)) == len(shlex.split(other.command))
        assert "\n" not in command.command


@given(st.sampled_from(["legacy", "v3"]), texts, st.lists(texts, max_size=3), texts, texts)
@example("v3", HOSTILE_TEXTS[0], [HOSTILE_TEXTS[1]], HOSTILE_TEXTS[2], HOSTILE_TEXTS[3])
def test_docker_gets_each_value_as_one_word(
    flavour: str, name: str, tags: list[str], token: str, password: str
) -> None:
    proxy = SpecProxy("proxy.example.com", user="u", password=password)
    request = build_request(flavour, kind="DOCKER", name=name, tags=tuple(tags), token=token, proxy=proxy)
    spec = try_spec(request)
    if spec is None:
        return
    (run,) = [command.command for command in spec.list_commands("create")]
    arguments = shlex.split(run)
    assert arguments[:3] == ["docker", "run", "--detach"]
    assert arguments[-1] == request.image
    variables = dict(
        arguments[index + 1].split("=", 1)
        for index, argument in enumerate(arguments[:-1])
        if argument == "--env"
    )
    assert variables.get("HARNESS_NAME", variables.get("DELEGATE_NAME")) == name
    assert variables.get("HARNESS_TOKEN", variables.get("DELEGATE_TOKEN")) == token
    assert variables["PROXY_PASSWORD"] == password
    flags = [argument for argument in arguments[2:-1] if argument.startswith("--")]
    assert len(arguments) == 3 + 1 + 2 * (len(flags) - 1)
    (service,) = yaml.safe_load(spec.files["compose.yaml"])["services"].values()
    # Compose reads two dollar signs as one.
    assert {key: value.replace("$$", "$") for key, value in service["environment"].items()} == variables


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"name": "a\nb"}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"tags": ("a,b",)}, "tags"),
        ({"token": "a\nb"}, "token"),
        ({"cluster": "a b"}, "cluster"),
        ({"service": "-x"}, "service"),
        ({"family": "$(id)"}, "family"),
        ({"execution_role": "a/b"}, "execution_role"),
        ({"log_group": "a b"}, "log_group"),
        ({"aws_account_id": "12345"}, "aws_account_id"),
        ({"region": "mars-1"}, "region"),
        ({"image": "--help"}, "image"),
        ({"hostname": "-x"}, "hostname"),
        ({"manager_url": "slipway"}, "manager_url"),
        ({"desired_count": 0}, "desired_count"),
        ({"memory_mib": 3000}, "memory_mib"),
        ({"cpu": 300}, "cpu"),
    ],
)
def test_what_makes_no_sense_is_refused_at_its_place(change: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidSpec) as error:
        write_spec(build_request(**change))
    assert path in [".".join(map(str, fault.path)) for fault in error.value.faults]
