"""Conditions in CEL (Common Expression Language), evaluated within a time limit.

This is the only module that imports celpy.
"""

import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

import celpy
import lark
from celpy import celtypes
from celpy.adapter import json_to_cel
from celpy.celparser import CELParseError
from celpy.evaluation import Activation, CELEvalError, CELSyntaxError, CELUnsupportedError, Evaluator

from guards.limits import POLICY_CONDITION_CHARACTERS, POLICY_CONDITION_DEPTH, POLICY_EVALUATION_MILLISECONDS
from guards.patterns import PatternRejected, has_match

MOST_COMPILED: Final = 512
_VALUE_ERRORS: Final = (
    CELEvalError,
    CELUnsupportedError,
    ArithmeticError,
    AttributeError,
    LookupError,
    # Of the files of time zones.
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)
_MISSING_FIELD: Final = "no such member in mapping:"
# The parser keeps the text that it reads.
_parser_lock = threading.Lock()


class InvalidCondition(ValueError):
    """Condition that cannot be parsed; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


class EvaluationFailed(Exception):
    """Condition that has no result for a document; the message is the end of a sentence."""


class UndeclaredName(EvaluationFailed):
    """Condition with a name that its documents do not have."""


class MissingField(EvaluationFailed):
    """Condition that reads a field that its document does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no field {name}")
        self.name = name


class NotBoolean(EvaluationFailed):
    """Condition with another result than true or false."""


class _DeadlineExceeded(Exception):
    """Evaluation that was stopped."""


@dataclass(frozen=True)
class CompiledCondition:
    """Parsed condition; `paths` are the values of the document that it names, such as artifact.tag."""

    tree: lark.Tree[Any]
    paths: tuple[str, ...]


class CelDocument:
    """Document in the types of CEL, converted once for many conditions."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.source = document
        self.values = {name: json_to_cel(value) for name, value in document.items()}


@lru_cache(maxsize=MOST_COMPILED)
def compile_condition(text: str) -> CompiledCondition:
    """Parse a condition. Raises `InvalidCondition`."""
    if len(text) > POLICY_CONDITION_CHARACTERS:
        raise InvalidCondition(f"A condition can have {POLICY_CONDITION_CHARACTERS}.")
    _require_flat(text)
    try:
        with _parser_lock:
            tree = _get_environment().compile(text)
    except CELParseError as error:
        line, column = error.line or 1, error.column or 1
        message = f"The condition cannot be parsed at line {line}, column {column}."
        raise InvalidCondition(message, line, column) from error
    except (lark.exceptions.LarkError, ValueError, RecursionError) as error:
        raise InvalidCondition("The condition cannot be parsed.") from error
    return CompiledCondition(tree, tuple(dict.fromkeys(_list_paths(tree))))


def evaluate_condition(
    text: str, document: CelDocument, *, milliseconds: float = POLICY_EVALUATION_MILLISECONDS
) -> bool:
    """Return whether a document meets a condition.

    Raises `InvalidCondition`, and `EvaluationFailed` if the result is not a Boolean, if there is none, or
    after `milliseconds` of processor time.
    """
    compiled = compile_condition(text)
    deadline = time.thread_time() + milliseconds / 1000
    runner = _get_environment().program(compiled.tree, functions={"matches": _matches})
    try:
        result = _BoundedEvaluator(compiled.tree, runner.new_activation(), deadline).evaluate(document.values)
    except _DeadlineExceeded as stopped:
        raise EvaluationFailed(f"it took longer than {POLICY_EVALUATION_MILLISECONDS}") from stopped
    except CELSyntaxError as error:
        # The library finds a macro without a variable only here.
        message = "A macro such as all or exists begins with the name of a variable."
        raise InvalidCondition(message, error.line or 1, error.column or 1) from error
    except _VALUE_ERRORS as error:
        raise _describe_error(error) from error
    if not isinstance(result, celtypes.BoolType):
        raise NotBoolean("its result is neither true nor false")
    return bool(result)


class _BoundedEvaluator(Evaluator):
    """Evaluator that stops at a deadline: macros in macros multiply their elements."""

    def __init__(self, ast: lark.Tree[Any], activation: Activation, deadline: float) -> None:
        super().__init__(ast, activation)
        self.deadline = deadline

    def sub_evaluator(self, ast: lark.Tree[Any]) -> Evaluator:
        return _BoundedEvaluator(ast, self.activation, self.deadline)

    def visit(self, tree: lark.Tree[Any]) -> Any:
        if time.thread_time() > self.deadline:
            raise _DeadlineExceeded
        return super().visit(tree)


@cache
def _get_environment() -> celpy.Environment:
    """Return the parser of this process, which takes half a second to build.

    Building it raises the recursion limit of the process to 2,500. The former limit is restored: other
    parsers of the process rely on it for input that is nested too deeply.
    """
    limit = sys.getrecursionlimit()
    try:
        return celpy.Environment()
    finally:
        sys.setrecursionlimit(limit)


def _matches(text: str, pattern: str) -> Any:
    try:
        return celtypes.BoolType(has_match(str(pattern), str(text)))
    except PatternRejected as rejected:
        return CELEvalError(f"the pattern {rejected}")


def _require_flat(text: str) -> None:
    """Raise `InvalidCondition` for nesting that would exhaust the stack."""
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if deepest > POLICY_CONDITION_DEPTH:
        raise InvalidCondition(f"A condition can have {POLICY_CONDITION_DEPTH} inside each other.")


def _describe_error(error: Exception) -> EvaluationFailed:
    if isinstance(error, RecursionError):
        return EvaluationFailed("it is nested too deeply")
    if isinstance(error, OSError):
        return EvaluationFailed("it names an unknown time zone")
    # The library appends all values of the document.
    message = str(error.args[0] if error.args else error).partition(" (in activation")[0]
    if message.startswith("undeclared reference"):
        return UndeclaredName(message)
    if message.startswith(_MISSING_FIELD):
        return MissingField(message.removeprefix(_MISSING_FIELD).strip(" '"))
    if message.startswith("found no matching overload") or message == "no such overload":
        return EvaluationFailed("it compares or combines values of different types")
    return EvaluationFailed(message[:200])


def _list_paths(tree: lark.Tree[Any]) -> list[str]:
    """Return the dotted paths that begin with a name; the longest of each chain."""
    paths: list[str] = []
    inner: set[int] = set()
    for node in tree.iter_subtrees_topdown():
        if id(node) not in inner and (chain := _read_chain(node)):
            names, nodes = chain
            inner |= nodes
            paths.append(".".join(names))
    return paths


def _read_chain(node: lark.Tree[Any]) -> tuple[list[str], set[int]] | None:
    """Return the names of a chain such as artifact.tag with the nodes inside it; None for other nodes."""
    names: list[str] = []
    nodes: set[int] = set()
    while True:
        nodes.add(id(node))
        if node.data == "member_dot":
            names.insert(0, str(node.children[1]))
        elif node.data == "ident":
            return [str(node.children[0]), *names], nodes
        elif node.data not in ("member", "primary") or len(node.children) != 1:
            return None
        child = node.children[0]
        if not isinstance(child, lark.Tree):
            return None
        node = child
