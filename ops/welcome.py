"""The block that tells a person where to click once everything runs."""

from django.conf import settings

from ops.demo_secrets import demo_api_key, demo_password


def welcome(seconds: float) -> str:
    """The text of the block."""
    rows = [
        ("Open", f"{settings.PUBLIC_URL}/"),
        ("Sign in as", f"admin, deployer or viewer, password {demo_password()}"),
        ("API key", demo_api_key()),
        ("API", f"{settings.PUBLIC_URL}/api/docs/"),
        ("Try", "Pipelines, Rolling demo, Run; then once more with the tag crash"),
        ("State", f"{settings.HOME} (SLIPWAY_HOME)"),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{width}}  {value}" for name, value in rows]
    rule = "-" * min(100, max(len(line) for line in lines) + 2)
    return "\n".join(
        ["", rule, f"  Slipway is ready after {seconds:.1f} s. Ctrl-C ends it.", "", *lines, rule, ""]
    )
