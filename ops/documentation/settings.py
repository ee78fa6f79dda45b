"""Reference page of the environment variables that Slipway reads."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from ops.documentation.markdown import Page, code, plain, table

# Read by the program that starts a process, before the settings exist.
STARTERS: tuple[tuple[str, str, str], ...] = (
    ("HOST", "`0.0.0.0`", "The address on which the web server of the image listens."),
    (
        "FORWARDED_ALLOW_IPS",
        "`127.0.0.1`",
        "The address of the proxy, whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted.",
    ),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "no traces",
        "The collector for [traces](../how-to/collect-telemetry.md#traces), with the other variables of "
        "OpenTelemetry.",
    ),
    ("SLIPWAY_DEMO_PASSWORD", "generated once", "The password of the users of the demo; `make run` only."),
    ("SLIPWAY_DEMO_API_KEY", "generated once", "The API key of the demo; `make run` only."),
    (
        "SLIPWAY_SANDBOX_DELEGATE_COMMAND",
        "the agent of this checkout",
        "The command that runs as a delegate in the sandbox; `off` runs none. `make run` only.",
    ),
)


def generate() -> Iterator[Page]:
    """Yield the page of settings."""
    yield Page("reference/settings.md", "Settings", tuple(_build_parts()))


def _build_parts() -> Iterator[str]:
    yield (
        "Slipway is configured with environment variables, the same for every process. `make run` needs "
        "none. A value that is not valid stops the start with a message that names the variable."
    )
    yield (
        "In production (`SLIPWAY_MODE=production`) some variables are required: [Run in "
        "production](../how-to/run-in-production.md)."
    )
    required = settings.ENV.REQUIRED_IN_PRODUCTION
    rows = [
        (" or ".join(map(code, list_names(field))), _format_default(field, required), _describe(field))
        for field in list_fields()
    ]
    yield table(("Variable", "Default", "Description"), rows)
    yield "## Read when a process starts"
    yield table(
        ("Variable", "Default", "Description"),
        [(code(name), default, text) for name, default, text in STARTERS],
    )


def list_fields() -> list[FieldInfo]:
    """Return the fields of the environment."""
    return list(type(settings.ENV).model_fields.values())


def list_names(field: FieldInfo) -> list[str]:
    """Return the variables that set a field."""
    if isinstance(field.validation_alias, AliasChoices):
        return [str(name) for name in field.validation_alias.choices]
    return [str(field.alias)]


def _format_default(field: FieldInfo, required: tuple[str, ...]) -> str:
    needed = "required in production" if set(list_names(field)) & set(required) else ""
    value: Any = field.default
    if value in ("", (), None):
        return needed or "none"
    if isinstance(value, bool):
        value = str(value).lower()
    default = code(getattr(value, "name", None) or (f"{value:d}" if isinstance(value, int) else str(value)))
    return f"{default}; {needed}" if needed else default


def _describe(field: FieldInfo) -> str:
    bounds = {
        name: getattr(constraint, name)
        for constraint in field.metadata
        for name in ("gt", "ge", "lt", "le")
        if hasattr(constraint, name)
    }
    least, most = bounds.get("ge"), bounds.get("le")
    between = f"{least} to {most:,}." if least is not None and most is not None else ""
    return " ".join(filter(None, (plain(field.description or ""), between)))
