"""The command line sends the configuration of a project, and the files that it names, and no others."""

from dataclasses import replace
from pathlib import Path

import pytest

from cli.commands.imports import _parse_values, _print_preview, _read_files
from cli.errors import CliError
from pipelines.api.imports import ImportPreviewDocument
from pipelines.imports.proposals import build_proposal
from tests.pipelines.imports.sample_projects import ecspresso_files, import_spec, pipecd_files


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def read(tool: str, folder: Path, config: str = "") -> dict[str, str]:
    return {file["path"]: file["content"] for file in _read_files(tool, folder, config)}


@pytest.mark.parametrize(("tool", "files"), [("ecspresso", ecspresso_files()), ("pipecd", pipecd_files())])
def test_the_configuration_and_its_files_are_sent(tmp_path: Path, tool: str, files: dict[str, str]) -> None:
    folder = write(tmp_path, {**files, ".env": "PASSWORD=x", "package.json": "{}"})
    assert read(tool, folder) == files


def test_a_configuration_of_another_name_and_folder_is_read(tmp_path: Path) -> None:
    files = {f"deploy/{name}": text for name, text in ecspresso_files().items()}
    files["deploy/prod.yml"] = files.pop("deploy/ecspresso.yml")
    folder = write(tmp_path, files)
    assert read("ecspresso", folder, "deploy/prod.yml") == files
    with pytest.raises(CliError, match=r"no ecspresso\.yml"):
        read("ecspresso", folder)


def test_nothing_outside_the_folder_is_sent(tmp_path: Path) -> None:
    folder = write(tmp_path / "project", {"ecspresso.yml": ""})
    secret = write(tmp_path, {"secret.json": "{}"}) / "secret.json"
    (folder / "link.json").symlink_to(secret)
    (folder / "ecspresso.yml").write_text(
        f"service_definition: ../secret.json\ntask_definition: link.json\n# task_definition: {secret}\n"
    )
    assert list(read("ecspresso", folder)) == ["ecspresso.yml"]


def test_a_file_that_is_too_large_or_no_text_is_not_sent(tmp_path: Path) -> None:
    folder = write(tmp_path, {"ecspresso.yml": "x" * 600_000})
    with pytest.raises(CliError, match="larger than 512 KiB"):
        read("ecspresso", folder)
    (folder / "ecspresso.yml").write_bytes(b"\xff\xfe")
    with pytest.raises(CliError, match="cannot be read"):
        read("ecspresso", folder)


def test_values_come_from_the_option_or_the_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGE_TAG", "1.28")
    assert _parse_values(["A=b=c", "IMAGE_TAG", "EMPTY="]) == {"A": "b=c", "IMAGE_TAG": "1.28", "EMPTY": ""}
    with pytest.raises(CliError, match="ABSENT is not set"):
        _parse_values(["ABSENT"])


def test_the_preview_names_the_pipelines_that_use_the_new_service(capsys: pytest.CaptureFixture[str]) -> None:
    takeover = "Used from now on in place of shop of a scope above: pipeline Old."
    proposal = replace(build_proposal(import_spec(ecspresso_files())), takeovers=(takeover,))
    _print_preview(ImportPreviewDocument(proposal).data)
    assert takeover in capsys.readouterr().out.replace("\n", " ")
