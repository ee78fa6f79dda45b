"""Sessions of roles that AWS connectors assume: role chains, and names and tags that may name the run."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from connectors.specs.base import build_spec_problem

DEFAULT_SESSION_NAME: Final = "slipway"
MAX_ROLES: Final = 5
_MAX_TAGS: Final = 50
_MAX_NAME_CHARACTERS: Final = 64
_MAX_VALUE_CHARACTERS: Final = 256
_OUTSIDE_RUNS: Final = "none"
_PIPELINE, _EXECUTION = "{pipeline}", "{execution}"
ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}\Z", re.ASCII)
# https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
_SESSION_NAME = re.compile(r"[\w+=,.@-]{2,64}\Z", re.ASCII)
_TAG_TEXT = re.compile(r"[\w .:/=+@-]*\Z")
_SEPARATORS = re.compile(r"\s*[,\n]\s*")


@dataclass(frozen=True)
class AwsRun:
    """Execution for which AWS is called, and the identifier of its pipeline."""

    pipeline: str
    execution: str


# A function, because reading the pipeline may take a query that most connectors do not need.
_current_run: ContextVar[Callable[[], AwsRun] | None] = ContextVar("aws_run", default=None)


@contextmanager
def name_aws_sessions(describe_run: Callable[[], AwsRun]) -> Iterator[None]:
    """Name sessions that are opened in the block after a run, where their connector wants that."""
    token = _current_run.set(describe_run)
    try:
        yield
    finally:
        _current_run.reset(token)


def names_run(*texts: str) -> bool:
    """Return whether one of the texts contains the pipeline or the execution."""
    return any(placeholder in text for text in texts for placeholder in (_PIPELINE, _EXECUTION))


def get_run_key(*texts: str) -> str:
    """Return the current run, if one of the texts of a session contains it, else an empty text."""
    return _get_run().execution if _current_run.get() is not None and names_run(*texts) else ""


def render_session_name(template: str) -> str:
    """Return the name of a session; a long pipeline identifier is cut, so that the execution stays whole."""
    template = template or DEFAULT_SESSION_NAME
    excess = len(_render(template, _MAX_NAME_CHARACTERS)) - _MAX_NAME_CHARACTERS
    pipeline_characters = min(len(_get_run().pipeline), _MAX_NAME_CHARACTERS) - max(0, excess)
    name = re.sub(r"[^\w+=,.@-]", "-", _render(template, max(0, pipeline_characters)), flags=re.ASCII)
    return name[:_MAX_NAME_CHARACTERS]


def _render(template: str, pipeline_characters: int) -> str:
    if not names_run(template):
        return template
    run = _get_run()
    return template.replace(_PIPELINE, run.pipeline[:pipeline_characters]).replace(_EXECUTION, run.execution)


def _get_run() -> AwsRun:
    describe_run = _current_run.get()
    return describe_run() if describe_run is not None else AwsRun(_OUTSIDE_RUNS, _OUTSIDE_RUNS)


def parse_list(text: str) -> list[str]:
    """Return the entries of a text with commas or line ends between them."""
    return [entry for entry in _SEPARATORS.split(text.strip()) if entry]


def render_session_tags(text: str) -> tuple[tuple[str, str], ...]:
    """Return the tags of a text such as `team=shop, run={execution}`, with the current run in them."""
    pairs = (entry.partition("=") for entry in parse_list(text))
    return tuple((key.strip(), _render(value.strip(), _MAX_VALUE_CHARACTERS)) for key, _, value in pairs)


def find_session_problems(
    *, via_roles: str, session_name: str, session_tags: str, transitive_tag_keys: str
) -> Iterator[dict[str, str]]:
    """Return the problems of the settings of a session, each as {"path", "message"}."""
    roles = parse_list(via_roles)
    if len(roles) > MAX_ROLES - 1:
        yield build_spec_problem("via_roles", f"A chain has {MAX_ROLES} roles at most, with the last one.")
    for role in roles:
        if not ROLE.match(role):
            yield build_spec_problem("via_roles", f"“{role[:100]}” is not the ARN of a role.")
    if not _SESSION_NAME.match(render_session_name(session_name)) or _has_unknown_placeholder(session_name):
        yield build_spec_problem(
            "session_name",
            "Use 2 to 64 letters, digits and + = , . @ - _, with {pipeline} and {execution} where wanted.",
        )
    yield from _find_tag_problems(session_tags, transitive_tag_keys)


def _find_tag_problems(session_tags: str, transitive_tag_keys: str) -> Iterator[dict[str, str]]:
    tags = render_session_tags(session_tags)
    keys = [key for key, _ in tags]
    if len(tags) > _MAX_TAGS or len({key.casefold() for key in keys}) < len(keys):
        yield build_spec_problem("session_tags", f"Use {_MAX_TAGS} tags at most, each key once.")
    if _has_unknown_placeholder(session_tags) or not all(_is_tag(*tag) for tag in tags):
        yield build_spec_problem(
            "session_tags",
            "Enter tags such as team=shop, run={execution}: a key of 1 to 128 characters and a value of 256 "
            "at most, of letters, digits, spaces and . : / = + @ - _. A key does not start with aws:.",
        )
    if unknown := [key for key in parse_list(transitive_tag_keys) if key not in keys]:
        yield build_spec_problem(
            "transitive_tag_keys", f"“{unknown[0][:100]}” is not among the session tags."
        )


def _is_tag(key: str, value: str) -> bool:
    return (
        0 < len(key) <= 128
        and len(value) <= _MAX_VALUE_CHARACTERS
        and bool(_TAG_TEXT.match(key) and _TAG_TEXT.match(value))
        and not key.casefold().startswith("aws:")
    )


def _has_unknown_placeholder(text: str) -> bool:
    return any(sign in text.replace(_PIPELINE, "").replace(_EXECUTION, "") for sign in "{}")
