"""The table of generated pages: one generator for each subject."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from ops.documentation import (
    api,
    command_line,
    comparison,
    delegate_requirements,
    delegate_support,
    iam_policies,
    layers,
    limits,
    log_lines,
    permissions,
    settings,
    steps,
)
from ops.documentation.markdown import Page

Generator = Callable[[], Iterator[Page]]
GENERATORS: Final[tuple[Generator, ...]] = (
    steps.generate,
    settings.generate,
    permissions.generate,
    api.generate,
    command_line.generate,
    comparison.generate,
    delegate_requirements.generate,
    delegate_support.generate,
    log_lines.generate,
    limits.generate,
    iam_policies.generate,
    layers.generate,
)


@cache
def generate_pages() -> dict[str, Page]:
    """Return every generated page by its path, generated once."""
    return {page.path: page for generator in GENERATORS for page in generator()}
