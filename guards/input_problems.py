"""Problems of untrusted input: reason, position and remedy."""

from dataclasses import dataclass

InputPath = tuple[str | int, ...]


@dataclass(frozen=True)
class InputProblem:
    """Problem of an input; line and column count from 1, or are None."""

    reason: str
    remedy: str = ""
    line: int | None = None
    column: int | None = None
    path: InputPath = ()

    @property
    def message(self) -> str:
        """Return the reason and the remedy, without the position."""
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason

    @property
    def display_message(self) -> str:
        """Return all of it, to be shown by itself."""
        text = (
            self.message if self.line is None else f"Line {self.line}, column {self.column}: {self.message}"
        )
        return f"{text[:1].upper()}{text[1:]}."

    def to_json(self) -> dict[str, str | int]:
        """Return the fault as problem documents list it; path is dotted, and empty for the whole."""
        error: dict[str, str | int] = {"path": ".".join(map(str, self.path)), "message": self.message}
        if self.line is not None and self.column is not None:
            error |= {"line": self.line, "column": self.column}
        return error


class InputRejected(ValueError):
    """Error raised for a rejected input, with its `problem`."""

    def __init__(self, problem: InputProblem) -> None:
        super().__init__(problem.display_message)
        self.problem = problem


def get_line_and_column(text: str, position: int) -> tuple[int, int]:
    """Return line and column, from 1, of an index into `text`."""
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
