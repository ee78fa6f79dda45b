"""`make bench`: runs every measurement on a database of its own."""

import os

# A throwaway SQLite, whatever the environment of the developer says.
os.environ.update(DJANGO_SETTINGS_MODULE="tests.settings", DATABASE_URL="", SLIPWAY_MODE="embedded")

import django

django.setup()

from django.core.management import call_command

from benchmarks import lines, policy


def main() -> None:
    """Print all reports."""
    call_command("migrate", verbosity=0)
    for measurement in (policy, lines):
        print(f"\n{(measurement.__doc__ or '').strip()}")
        for text in measurement.report():
            print(text)


if __name__ == "__main__":
    main()
