"""What the entries of a list in a step's spec consist of, so that forms can ask for each part by itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One key of the entries: `kind` is text, lines, number, choice, flag, names, pairs or checks.

    `names` is a list of texts, `pairs` a mapping of names to values, `checks` some of the choices.
    """

    name: str
    kind: str = "text"
    help: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""
    is_needed: bool = False
