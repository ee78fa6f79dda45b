"""`make fuzz`: requests made up from the description, by three roles; ends with 1 where a check fails.

`FUZZ_CASES` is how many each phase makes up for an operation, `FUZZ_ROLES` who asks, `FUZZ_OPERATIONS` a
pattern of the addresses that are asked, `FUZZ_SEED` repeats a run.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.exceptions import REFUSED_ALTHOUGH_DESCRIBED
from tests.fuzz.installation import ROLES, Asker, Installation, installed

_ROOT = Path(__file__).resolve().parents[2]
_CASES = "4"
# Names that mean something there, so that not everything ends with 404.
_KNOWN = """
[dictionaries.keys]
values = [1, 2, 3, 4, 5]
[dictionaries.orgs]
values = ["default"]
[dictionaries.projects]
values = ["demo"]
[dictionaries.scopes]
values = ["account", "account/default", "account/default/demo"]
[parameters]
"path.id" = { dictionary = "keys", probability = 0.5 }
"path.infrastructure" = { dictionary = "keys", probability = 0.5 }
"path.service" = { dictionary = "keys", probability = 0.5 }
"path.number" = { dictionary = "keys", probability = 0.5 }
"path.org" = { dictionary = "orgs", probability = 0.5 }
"path.project" = { dictionary = "projects", probability = 0.5 }
"query.org" = { dictionary = "orgs", probability = 0.5 }
"body.scope" = { dictionary = "scopes", probability = 0.5 }
"body.org" = { dictionary = "orgs", probability = 0.5 }
"body.project" = { dictionary = "projects", probability = 0.5 }
"""


def main() -> int:
    """Run the fuzzer with each role, and print a summary."""
    roles = os.environ.get("FUZZ_ROLES", " ".join(ROLES)).split()
    if unknown := set(roles) - ROLES.keys():
        sys.exit(f"FUZZ_ROLES names what is not there: {', '.join(sorted(unknown))}. Use {', '.join(ROLES)}.")
    with tempfile.TemporaryDirectory(prefix="slipway-fuzz-") as name, installed(Path(name)) as installation:
        if unknown := REFUSED_ALTHOUGH_DESCRIBED.keys() - installation.operations():
            sys.exit(f"tests/fuzz/exceptions.py names what is not there: {', '.join(sorted(unknown))}")
        askers = [installation.asker(role) for role in roles]
        addresses = [address for asker in askers for address in asker.addresses]
        reports = {asker.role: _send_requests(installation, asker, addresses, Path(name)) for asker in askers}
    for role, report in reports.items():
        print(f"{role}: {_summary(report)}")
    return int(any(_is_bad(report) for report in reports.values()))


def _send_requests(
    installation: Installation, asker: Asker, addresses: list[str], folder: Path
) -> dict[str, Any]:
    """Run schemathesis as one role; return its report."""
    print(f"--- as {asker.role}", flush=True)
    config, report = folder / "schemathesis.toml", folder / f"{asker.role}.json"
    config.write_text(f'hooks = "tests.fuzz.hooks"\n{_KNOWN}')
    program = Path(sys.executable).with_name("schemathesis")
    command: list[str | Path] = [program, "--config-file", config, "run"]
    command += [f"{installation.url}/api/schema/?format=json", "--url", installation.url, *_options(asker)]
    environment = {**os.environ, "SLIPWAY_FUZZ_KEPT": "\n".join(addresses), "PYTHONPATH": str(_ROOT)}
    ended = subprocess.run([*command, "--report-json-path", report], cwd=folder, env=environment, check=False)
    content = dict(json.loads(report.read_text()))
    content["exit_code"] = ended.returncode
    content["still_known"] = installation.is_key_valid(asker)
    return content


def _options(asker: Asker) -> Iterator[str]:
    yield from ("--header", f"x-api-key: {asker.token}", "--checks", "all")
    yield from ("--phases", "examples,coverage,fuzzing,stateful", "--mode", "all")
    yield from ("--max-examples", os.environ.get("FUZZ_CASES", _CASES), "--continue-on-failure")
    yield from ("--generation-database", "none", "--no-color", "--report", "json", "--warnings", "off")
    if operations := os.environ.get("FUZZ_OPERATIONS"):
        yield from ("--include-path-regex", operations)
    if seed := os.environ.get("FUZZ_SEED"):
        yield from ("--seed", seed)


def _is_bad(report: dict[str, Any]) -> bool:
    return bool(report["exit_code"]) or not report["still_known"]


def _summary(report: dict[str, Any]) -> str:
    cases, operations = report["test_cases"], report["operations"]
    summary = (
        f"{cases['generated']} cases of {operations['tested']} operations in {report['running_time']:.0f} s, "
        f"{cases['unique_failures']} findings (seed {report['seed']})"
    )
    return summary if report["still_known"] else f"{summary}; it lost its own key"


if __name__ == "__main__":
    sys.exit(main())
