"""Edits of one document of a file; the other documents stay as they are, byte for byte."""

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from catalog.manifests.yaml_drafts import NotEditable, YamlDraft, is_identical
from cli.resources.kinds import KINDS, Spec
from cli.resources.plans import index_documents
from cli.resources.stored import Key
from cli.resources.yaml_documents import ResourceDocument, dump_yaml, parse_documents
from guards.limits import GIT_SYNC_DIFF_CHARACTERS
from guards.text import sanitize_text

_MARKER: Final = re.compile(r"(---|\.\.\.)(\s|$)")
_BYTE_ORDER_MARK: Final = "\ufeff"


def read_spec(text: str, key: Key, scope: str) -> Spec | None:
    """Return the complete spec of a document of a file; None if the file has none. Raises `CliError`."""
    document = _index(text, scope).get(key)
    return KINDS[key.kind].complete_spec(document.spec) if document else None


def edit_document(text: str, key: Key, scope: str, after: Spec) -> str:
    """Return a file in which the document of a resource has another spec; comments stay where they can.

    Raises `CliError` for a file that is not valid, `NotEditable` if the spec cannot be written into it.
    """
    documents = _index(text, scope)
    begin, end = _find_lines(text, documents[key].location.node)
    lines = text.splitlines(keepends=True)
    edited = _edit("".join(lines[begin:end]), _build_target(documents[key].spec, after, key.kind))
    result = "".join([*lines[:begin], edited, *lines[end:]])
    _verify(_index(result, scope), documents, key, after)
    return result


def build_difference(before: Spec, after: Spec) -> str:
    """Return the unified diff of two specs, cut at a limit."""
    old, new = (dump_yaml(spec).splitlines() for spec in (before, after))
    lines = [sanitize_text(line) for line in difflib.unified_diff(old, new, lineterm="", n=2)]
    return "\n".join(lines[2:])[:GIT_SYNC_DIFF_CHARACTERS]


def _index(text: str, scope: str) -> dict[Key, ResourceDocument]:
    return index_documents(list(parse_documents(text, "", scope)))


def _find_lines(text: str, node: yaml.Node) -> tuple[int, int]:
    """Return the lines of a document, without its separators. Raises `NotEditable`."""
    lines = text.splitlines(keepends=True)
    first = node.start_mark.line
    if text.startswith(_BYTE_ORDER_MARK) or _MARKER.match(lines[first]) or "\r" in text.replace("\r\n", ""):
        raise NotEditable("The document cannot be edited in place.")
    begin = next((n + 1 for n in range(first, -1, -1) if _MARKER.match(lines[n])), 0)
    end = next((n for n in range(first, len(lines)) if _MARKER.match(lines[n])), len(lines))
    return begin, end


def _edit(text: str, spec: Spec) -> str:
    """Return a document with another spec, in the line ends of the old text. Raises `NotEditable`."""
    draft = YamlDraft(text)
    _assign(draft.value["spec"], spec)
    rendered = draft.render()
    if not text.endswith("\n"):
        rendered = rendered.removesuffix("\n")
    return rendered.replace("\n", "\r\n") if "\r\n" in text else rendered


def _assign(value: dict[str, Any], target: Mapping[str, Any]) -> None:
    """Change a mapping in place; parts that stay keep their text."""
    for name in [name for name in value if name not in target]:
        del value[name]
    for name, new in target.items():
        old = value.get(name)
        if isinstance(old, dict) and isinstance(new, dict) and old and new:
            _assign(old, new)
        elif name not in value or not is_identical(old, new):
            value[name] = _merge_list(old, new) if isinstance(old, list) and isinstance(new, list) else new


def _merge_list(old: list[Any], new: list[Any]) -> list[Any]:
    """Return a list whose items keep the text of the old ones, by position or by value."""
    if len(old) == len(new) and all(isinstance(item, dict) and item for item in (*old, *new)):
        for item, values in zip(old, new, strict=True):
            _assign(item, values)
        return old
    left = [item for item in old if isinstance(item, dict | list)]
    merged = []
    for item in new:
        same = next((kept for kept in left if is_identical(kept, item)), None)
        left = [kept for kept in left if kept is not same]
        merged.append(item if same is None else same)
    return merged


def _build_target(written: Spec, after: Spec, kind: str) -> Spec:
    """Return the spec to write: without defaults, except those that the document has anyway."""
    short = KINDS[kind].shorten_spec(after)
    return {name: _keep_written(written.get(name), after[name], short.get(name)) for name in after
            if name in written or name in short}  # fmt: skip


def _keep_written(written: Any, full: Any, short: Any) -> Any:
    """Return a value with the parts that are written or no default, in the order of the document."""
    if isinstance(written, dict) and isinstance(full, dict):
        short = short if isinstance(short, dict) else full
        names = [
            *(name for name in written if name in full),
            *(name for name in short if name not in written),
        ]
        return {name: _keep_written(written.get(name), full[name], short.get(name)) for name in names}
    if isinstance(written, list) and isinstance(full, list) and len(written) == len(full):
        shorts = short if isinstance(short, list) else full
        return [_keep_written(*parts) for parts in zip(written, full, shorts, strict=True)]
    return full if short is None else short


def _verify(
    result: Mapping[Key, ResourceDocument], old: Mapping[Key, ResourceDocument], key: Key, after: Spec
) -> None:
    """Raise `NotEditable` if the edited document is not the new one, or another one was changed."""
    others_stay = all(result.get(name) and result[name].spec == old[name].spec for name in old if name != key)
    new = result.get(key)
    if not (others_stay and len(result) == len(old) and new):
        raise NotEditable("The document cannot be edited without a change of others.")
    if KINDS[key.kind].complete_spec(new.spec) != after:
        raise NotEditable("The new values cannot be written into the document.")
