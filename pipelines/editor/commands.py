"""Commands of the visual editor, each applied to the text of a pipeline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.manifests.yaml_drafts import NotEditable, YamlDraft
from pipelines.editor import edits
from pipelines.editor.forms import write_form
from pipelines.editor.provisioners import delete_provisioner, set_provisioner
from pipelines.editor.target_fields import set_target
from pipelines.editor.tree_paths import (
    TEXT_CHANGED_MESSAGE,
    TreePath,
    format_path,
    get_body,
    get_kind,
    get_node,
    parse_path,
)
from steps.kinds.registry import get_step_kinds

SHOW, APPLY, CLOSE, CHOOSE_TARGET = "show", "apply", "close", "choose-place"


@dataclass(frozen=True)
class CommandResult:
    """The text after a command, the open form, and messages."""

    text: str
    open_path: str = ""
    message: str = ""
    problem: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _CommandInput:
    """The input of a command."""

    tree: Any
    path: TreePath
    data: Mapping[str, str]


def run_command(text: str, data: Mapping[str, str]) -> CommandResult:
    """Write the open form into the text, then run the command.

    If either fails, the text is unchanged and `problem` or `errors` have the reason.
    """
    text = text.replace("\r\n", "\n")
    open_at = data.get("form_at", "")
    if data.get("do") == SHOW:
        return CommandResult(text, open_at)
    try:
        text, errors = _apply_form(text, open_at, data)
        if errors and data.get("do") == CLOSE:
            return CommandResult(text, message="Closed. Your entries could not be applied.")
        if errors:
            return CommandResult(text, open_at, errors=errors, problem=errors.get("", ""))
        name = data.get("do", APPLY)
        if name == APPLY:
            return CommandResult(text, open_at, message="Applied.")
        return _apply_command(text, name, data)
    except NotEditable as refused:
        return CommandResult(text, open_at, problem=str(refused))


def _apply_form(text: str, at: str, data: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    if not at:
        return text, {}
    draft = YamlDraft(text)
    path = parse_path(at)
    _require_identifier(draft.value, path, data.get("form_is", ""))
    errors = write_form(draft.value, path, data)
    return (text, errors) if errors else (draft.render(), {})


def _apply_command(text: str, name: str, data: Mapping[str, str]) -> CommandResult:
    command = _COMMANDS.get(name)
    if command is None:
        raise NotEditable(f"Unknown command {name}.")
    draft = YamlDraft(text)
    at = parse_path(data.get("at", ""))
    if "is" in data:
        _require_identifier(draft.value, at, data["is"])
    open_path, message = command(_CommandInput(draft.value, at, data))
    return CommandResult(draft.render(), format_path(open_path), message)


def _require_identifier(tree: Any, at: TreePath, identifier: str) -> None:
    if str(get_body(get_node(tree, at)).get("identifier") or "") != identifier:
        raise NotEditable(TEXT_CHANGED_MESSAGE)


def _get_title(tree: Any, at: TreePath) -> str:
    item = get_node(tree, at)
    body = get_body(item)
    return str(
        body.get("name") or body.get("identifier") or ("The parallel block" if get_kind(item) else "This")
    )


def _open(inputs: _CommandInput) -> tuple[TreePath, str]:
    return inputs.path, ""


def _close(inputs: _CommandInput) -> tuple[TreePath, str]:
    return (), ""


def _add_stage(inputs: _CommandInput) -> tuple[TreePath, str]:
    name = inputs.data.get("stage_name", "").strip()
    if not 0 < len(name) <= 128:
        raise NotEditable("Enter a stage name of at most 128 characters.")
    at = edits.add_stage(inputs.tree, name)
    return at, f"Stage {name} added. Choose its service, environment and strategy."


def _add_step(inputs: _CommandInput) -> tuple[TreePath, str]:
    type_ = inputs.data.get("type", "")
    at = edits.add_step(inputs.tree, inputs.path, type_)
    return at, f"{get_step_kinds()[type_].title} added."


def _set_strategy(inputs: _CommandInput) -> tuple[TreePath, str]:
    name = inputs.data.get("strategy", "")
    edits.set_strategy(inputs.tree, inputs.path, name)
    return inputs.path, f"Steps and rollback steps of {name} added to the stage."


def _set_provisioner(inputs: _CommandInput) -> tuple[TreePath, str]:
    name = inputs.data.get("provisioner", "")
    set_provisioner(inputs.tree, inputs.path, name)
    return inputs.path, f"Steps of {name} added to the stage. They run before the deployment."


def _delete_provisioner(inputs: _CommandInput) -> tuple[TreePath, str]:
    delete_provisioner(inputs.tree, inputs.path)
    return (
        inputs.path,
        f"{_get_title(inputs.tree, inputs.path)} deploys to an existing infrastructure.",
    )


def _choose_target(inputs: _CommandInput) -> tuple[TreePath, str]:
    place = inputs.data.get("chosen", "")
    set_target(inputs.tree, inputs.path, place)
    return inputs.path, f"{_get_title(inputs.tree, inputs.path)} deploys to {place}."


def _delete(inputs: _CommandInput) -> tuple[TreePath, str]:
    message = f"{_get_title(inputs.tree, inputs.path)} deleted."
    edits.delete_item(inputs.tree, inputs.path)
    return (), message


def _move_up(inputs: _CommandInput) -> tuple[TreePath, str]:
    return _move(inputs, -1, "up")


def _move_down(inputs: _CommandInput) -> tuple[TreePath, str]:
    return _move(inputs, 1, "down")


def _move(inputs: _CommandInput, by: int, where: str) -> tuple[TreePath, str]:
    title = _get_title(inputs.tree, inputs.path)
    return edits.move_item(inputs.tree, inputs.path, by), f"{title} moved {where}."


def _make_parallel(inputs: _CommandInput) -> tuple[TreePath, str]:
    title = _get_title(inputs.tree, inputs.path)
    return edits.make_parallel(inputs.tree, inputs.path), f"{title} runs in parallel with the previous step."


def _wrap_in_group(inputs: _CommandInput) -> tuple[TreePath, str]:
    title = _get_title(inputs.tree, inputs.path)
    return edits.wrap_in_group(inputs.tree, inputs.path), f"{title} moved into a step group."


def _move_out(inputs: _CommandInput) -> tuple[TreePath, str]:
    title = _get_title(inputs.tree, inputs.path)
    return edits.move_out(inputs.tree, inputs.path), f"{title} moved out of the group."


_COMMANDS: dict[str, Callable[[_CommandInput], tuple[TreePath, str]]] = {
    "open": _open,
    CLOSE: _close,
    "add-stage": _add_stage,
    "add-step": _add_step,
    "set-strategy": _set_strategy,
    "set-provisioner": _set_provisioner,
    "drop-provisioner": _delete_provisioner,
    CHOOSE_TARGET: _choose_target,
    "delete": _delete,
    "up": _move_up,
    "down": _move_down,
    "beside": _make_parallel,
    "group": _wrap_in_group,
    "out": _move_out,
}
