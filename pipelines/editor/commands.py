"""One change that somebody makes in the visual editor: what was asked, as words, becomes a new text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.manifests.yaml_draft import Draft, NotEditable
from pipelines.editor import edits
from pipelines.editor.forms import write_form
from pipelines.editor.places import GONE, Path, body_of, found, kind_of, path_from, path_text
from pipelines.editor.provisioners import drop_provisioner, set_provisioner
from pipelines.editor.targets import choose_place
from steps.kinds.base import known_steps

SHOW, APPLY, CLOSE, CHOOSE_PLACE = "show", "apply", "close", "choose-place"


@dataclass(frozen=True)
class Outcome:
    """The text after a change, what is open now, and what is to be said about it."""

    text: str
    open: str = ""
    said: str = ""
    problem: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Asked:
    """What a command is told."""

    tree: Any
    at: Path
    given: Mapping[str, str]


def carry_out(text: str, given: Mapping[str, str]) -> Outcome:
    """Write the form that is open into the text, then do what was asked.

    Where either cannot be, the text stays as it was and `problem` or `errors` say why.
    """
    text = text.replace("\r\n", "\n")
    open_at = given.get("form_at", "")
    if given.get("do") == SHOW:
        return Outcome(text, open_at)
    try:
        text, errors = _with_form(text, open_at, given)
        if errors and given.get("do") == CLOSE:
            return Outcome(text, said="Closed. What was entered could not be applied.")
        if errors:
            return Outcome(text, open_at, errors=errors, problem=errors.get("", ""))
        done = given.get("do", APPLY)
        if done == APPLY:
            return Outcome(text, open_at, said="Applied.")
        return _done(text, done, given)
    except NotEditable as refused:
        return Outcome(text, open_at, problem=str(refused))


def _with_form(text: str, at: str, given: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    if not at:
        return text, {}
    draft = Draft(text)
    path = path_from(at)
    _expect(draft.value, path, given.get("form_is", ""))
    errors = write_form(draft.value, path, given)
    return (text, errors) if errors else (draft.written(), {})


def _done(text: str, name: str, given: Mapping[str, str]) -> Outcome:
    command = _COMMANDS.get(name)
    if command is None:
        raise NotEditable(f"There is no command {name}.")
    draft = Draft(text)
    at = path_from(given.get("at", ""))
    if "is" in given:
        _expect(draft.value, at, given["is"])
    opened, said = command(_Asked(draft.value, at, given))
    return Outcome(draft.written(), path_text(opened), said)


def _expect(tree: Any, at: Path, identifier: str) -> None:
    if str(body_of(found(tree, at)).get("identifier") or "") != identifier:
        raise NotEditable(GONE)


def _title(tree: Any, at: Path) -> str:
    item = found(tree, at)
    body = body_of(item)
    return str(
        body.get("name") or body.get("identifier") or ("The parallel block" if kind_of(item) else "This")
    )


def _open(asked: _Asked) -> tuple[Path, str]:
    return asked.at, ""


def _close(asked: _Asked) -> tuple[Path, str]:
    return (), ""


def _add_stage(asked: _Asked) -> tuple[Path, str]:
    name = asked.given.get("stage_name", "").strip()
    if not 0 < len(name) <= 128:
        raise NotEditable("Give the stage a name of at most 128 characters.")
    at = edits.add_stage(asked.tree, name)
    return at, f"Stage {name} was added. Choose what it deploys, where and how."


def _add_step(asked: _Asked) -> tuple[Path, str]:
    type_ = asked.given.get("type", "")
    at = edits.add_step(asked.tree, asked.at, type_)
    return at, f"{known_steps()[type_].title} was added."


def _set_strategy(asked: _Asked) -> tuple[Path, str]:
    name = asked.given.get("strategy", "")
    edits.set_strategy(asked.tree, asked.at, name)
    return asked.at, f"The steps and the rollback steps of {name} are in the stage."


def _set_provisioner(asked: _Asked) -> tuple[Path, str]:
    name = asked.given.get("provisioner", "")
    set_provisioner(asked.tree, asked.at, name)
    return asked.at, f"The steps of {name} are in the stage. They run before it deploys."


def _drop_provisioner(asked: _Asked) -> tuple[Path, str]:
    drop_provisioner(asked.tree, asked.at)
    return asked.at, f"{_title(asked.tree, asked.at)} deploys to infrastructure that is there already."


def _choose_place(asked: _Asked) -> tuple[Path, str]:
    place = asked.given.get("chosen", "")
    choose_place(asked.tree, asked.at, place)
    return asked.at, f"{_title(asked.tree, asked.at)} deploys to {place}."


def _delete(asked: _Asked) -> tuple[Path, str]:
    said = f"{_title(asked.tree, asked.at)} was deleted."
    edits.delete(asked.tree, asked.at)
    return (), said


def _up(asked: _Asked) -> tuple[Path, str]:
    return _moved(asked, -1, "up")


def _down(asked: _Asked) -> tuple[Path, str]:
    return _moved(asked, 1, "down")


def _moved(asked: _Asked, by: int, where: str) -> tuple[Path, str]:
    title = _title(asked.tree, asked.at)
    return edits.move(asked.tree, asked.at, by), f"{title} was moved {where}."


def _beside(asked: _Asked) -> tuple[Path, str]:
    title = _title(asked.tree, asked.at)
    return edits.beside_previous(asked.tree, asked.at), f"{title} runs at the same time as what is before it."


def _group(asked: _Asked) -> tuple[Path, str]:
    title = _title(asked.tree, asked.at)
    return edits.into_group(asked.tree, asked.at), f"{title} is in a group."


def _out(asked: _Asked) -> tuple[Path, str]:
    title = _title(asked.tree, asked.at)
    return edits.take_out(asked.tree, asked.at), f"{title} stands by itself."


_COMMANDS: dict[str, Callable[[_Asked], tuple[Path, str]]] = {
    "open": _open,
    CLOSE: _close,
    "add-stage": _add_stage,
    "add-step": _add_step,
    "set-strategy": _set_strategy,
    "set-provisioner": _set_provisioner,
    "drop-provisioner": _drop_provisioner,
    CHOOSE_PLACE: _choose_place,
    "delete": _delete,
    "up": _up,
    "down": _down,
    "beside": _beside,
    "group": _group,
    "out": _out,
}
