"""What a run of Terraform is given: files, the folder among them, variables, backend, targets."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from steps.actions.base import ActionFailed, Rollout
from steps.variables import SECRET, Environment, as_text, secret_in

CONFIGURATION = "TerraformConfiguration"
TERRAFORM, TERRAGRUNT = "terraform", "terragrunt"
TITLES = {TERRAFORM: "Terraform", TERRAGRUNT: "Terragrunt"}
# What a configuration that is written in the step itself is called on disk.
_MAIN = {TERRAFORM: "main.tf", TERRAGRUNT: "terragrunt.hcl"}
_OF_PROGRAM = {TERRAFORM: (".tf", ".tf.json", ".tofu"), TERRAGRUNT: ("terragrunt.hcl", "terragrunt.hcl.json")}
_EXPRESSION = re.compile(r"<\+((?:[^<>\"]|\"[^\"]*\")*)>")
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True)
class Asked:
    """What a step says of a run. `variables` and `environment` are [name, type, value] each."""

    folder: str = ""
    workspace: str = ""
    variables: list[list[str]] = field(default_factory=list)
    environment: list[list[str]] = field(default_factory=list)
    variable_files: list[str] = field(default_factory=list)
    variable_text: str = ""
    backend: str = ""
    targets: list[str] = field(default_factory=list)


def parameters_of(program: str, asked: Asked, rollout: Rollout) -> dict[str, Any]:
    """The parameters of a run, with expressions filled in and secrets as references.

    Raises `ActionFailed` for a folder that cannot be told, or an expression that names nothing.
    """
    files = {
        path or _MAIN[program]: text for path, text in rollout.supplies.program_files(CONFIGURATION).items()
    }
    environment = Environment(rollout.value_of)
    for listed, prefix in ((asked.variables, "TF_VAR_"), (asked.environment, "")):
        for name, kind, value in listed:
            if kind == SECRET:
                environment.secrets[prefix + name] = value
            else:
                environment.add(prefix + name, value)
    return {
        "program": program,
        "files": files,
        "folder": asked.folder.strip("/") or folder_of(program, files),
        "workspace": asked.workspace,
        "environment": environment.values,
        "secrets": {f"environment.{name}": ref for name, ref in environment.secrets.items()},
        "inputs": {
            "backend": hcl_filled_in(asked.backend, rollout),
            "variables": hcl_filled_in(asked.variable_text, rollout),
        },
        "variable_files": list(asked.variable_files),
        "targets": list(asked.targets),
    }


def folder_of(program: str, files: Mapping[str, str]) -> str:
    """The folder to run in: the highest that holds files of the program. Raises `ActionFailed`."""
    ends = _OF_PROGRAM[program]
    found = {str(PurePosixPath(path).parent) for path in files if path.endswith(ends)}
    if not found:
        raise ActionFailed(
            "CONFIGURATION_MISSING",
            f"None of the {len(files)} files is one of {TITLES[program]} ({', '.join(ends)}). "
            "Let configFiles name the folder that holds them.",
        )
    depths = {folder: len(PurePosixPath(folder).parts) for folder in found}
    highest = sorted(folder for folder, depth in depths.items() if depth == min(depths.values()))
    if len(highest) > 1:
        raise ActionFailed(
            "FOLDER_UNCLEAR",
            f"Several folders hold a configuration: {', '.join(highest[:10])}. Name one as folderPath.",
        )
    return highest[0]


def hcl_filled_in(text: str, rollout: Rollout) -> str:
    """A text of HCL with its expressions filled in, escaped as within double quotes.

    Raises `ActionFailed` for a secret: it would stand in a file.
    """

    def filled(match: "re.Match[str]") -> str:
        if secret_in(match[0]):
            raise ActionFailed(
                "SECRET_IN_FILE",
                f"{match[0]} would be written into a file. Give the secret as a variable, or as an "
                "environment variable, of type Secret.",
            )
        return hcl_escaped(as_text(rollout.value_of(match[1].strip())))

    return _EXPRESSION.sub(filled, text)


def hcl_escaped(text: str) -> str:
    """A text as it stands between double quotes in HCL: never the end of them, never a template."""
    escaped = "".join(_ESCAPED.get(one, one) for one in text)
    return escaped.replace("${", "$${").replace("%{", "%%{")


def listed(variables: Sequence[Mapping[str, Any]], default: str) -> list[list[str]]:
    """Variables as people write them, as [name, type, value]."""
    return [
        [str(one["name"]), str(one.get("type", default)), _plain(one.get("value", ""))] for one in variables
    ]


def _plain(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
