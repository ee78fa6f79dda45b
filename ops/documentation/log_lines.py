"""Reference pages of log lines and failure codes, read from the calls that write them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ops.documentation.markdown import Page, code, plain, table
from steps.actions.base import ActionFailed
from steps.actions.context import StepContext

ROOT = Path(__file__).resolve().parents[2]
# Where executions write their log and raise their failures.
FOLDERS = ("steps/actions", "deployments/engine")
LOG, NOTE = StepContext.log.__name__, StepContext.add_note.__name__
_LONGEST_NAME = 40


@dataclass(frozen=True)
class LogLine:
    """A line as code writes it, with placeholders for values."""

    subject: str
    text: str
    level: str


@dataclass(frozen=True)
class FailureMessage:
    """A failure's code and one of its messages, with placeholders for values."""

    code: str
    text: str


def generate() -> Iterator[Page]:
    """Yield the page of log lines and the page of failure codes."""
    yield Page("reference/log-lines.md", "Log lines", tuple(_build_log_parts()))
    yield Page("reference/failure-codes.md", "Failure codes", tuple(_build_failure_parts()))


def _build_log_parts() -> Iterator[str]:
    yield (
        "Slipway itself writes these lines to the log of an execution. A name in angle quotes, such as "
        "‹name›, stands for a value. Output of scripts, containers and Terraform comes between them, and "
        "events of AWS are shown in AWS's words."
    )
    lines = sorted(set(list_log_lines()), key=lambda line: (line.subject, line.text))
    for subject in sorted({line.subject for line in lines}):
        yield f"## {subject}"
        yield table(
            ("Line", "Level"), [(plain(line.text), line.level) for line in lines if line.subject == subject]
        )


def _build_failure_parts() -> Iterator[str]:
    yield (
        "A failed step has a code, which stays the same between versions, and a message for people. The API "
        "has them as `failure.code` and `failure.message`. A name in angle quotes, such as ‹name›, stands "
        "for a value."
    )
    texts: dict[str, list[str]] = {}
    for message in list_failures():
        if message.text not in (listed := texts.setdefault(message.code, [])):
            listed.append(message.text)
    rows = [(code(name), "<br>".join(plain(text) for text in texts[name])) for name in sorted(texts)]
    yield table(("Code", "Messages"), rows)


def list_log_lines() -> Iterator[LogLine]:
    """Yield every line with a text in the code; lines of users, programs and AWS have none."""
    for path, tree in _list_modules():
        for call in _list_calls(tree):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if name not in (LOG, NOTE) or not call.args:
                continue
            level = "warning" if name == NOTE else _get_level(call)
            yield from (
                LogLine(_get_subject(path), text, level)
                for text in _list_texts(call.args[0])
                if _is_logged(text)
            )


def list_failures() -> Iterator[FailureMessage]:
    """Yield every failure with a code in the source."""
    classes = {ActionFailed.__name__, *(subclass.__name__ for subclass in ActionFailed.__subclasses__())}
    for _, tree in _list_modules():
        constants = _list_constants(tree)
        for call in _list_calls(tree):
            if not (isinstance(call.func, ast.Name) and call.func.id in classes and len(call.args) > 1):
                continue
            first = call.args[0]
            named = (
                constants.get(first.id, "") if isinstance(first, ast.Name) else "".join(_list_texts(first))
            )
            if named.isupper():
                yield from (FailureMessage(named, text) for text in _list_texts(call.args[1]))


def _list_modules() -> Iterator[tuple[Path, ast.Module]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT / folder), ast.parse(path.read_text())


def _list_calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _list_constants(tree: ast.Module) -> dict[str, str]:
    constants: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            constants |= {
                target.id: str(node.value.value) for target in targets if isinstance(target, ast.Name)
            }
    return constants


def _get_subject(path: Path) -> str:
    """Return the heading for the lines of a module."""
    return path.parts[0].removesuffix(".py").replace("_", " ").capitalize()


def _get_level(call: ast.Call) -> str:
    level_values = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "level")]
    return " or ".join(_list_texts(level_values[0])) if level_values else "info"


def _is_logged(text: str) -> bool:
    """Return whether a line has text in addition to its values."""
    return any(part.strip(" :,.") for part in _remove_values(text))


def _remove_values(text: str) -> list[str]:
    return [part.partition("›")[2] if "›" in part else part for part in text.split("‹")]


def _list_texts(node: ast.expr) -> list[str]:
    """Return the constant texts that an expression can have."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.IfExp):
        return [*_list_texts(node.body), *_list_texts(node.orelse)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [prefix + right for prefix in _list_texts(node.left) for right in _list_texts(node.right)]
    if isinstance(node, ast.JoinedStr):
        return ["".join(map(_render_part, node.values))]
    return []


def _render_part(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return f"‹{_get_value_name(node.value) if isinstance(node, ast.FormattedValue) else 'value'}›"


def _get_value_name(node: ast.expr) -> str:
    """Return a name for a value: the last name in the expression."""
    names = [
        part.id if isinstance(part, ast.Name) else part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Name | ast.Attribute)
    ]
    if isinstance(node, ast.Attribute | ast.Name):
        names = names[:1]
    elif isinstance(node, ast.Call | ast.Subscript):
        names = [name for name in names if name not in ("len", "str", "int", "join")][:1]
    word = names[0].strip("_").replace("_", " ").lower() if names else "value"
    return word[:_LONGEST_NAME]
