"""An installation with everything twice, once per test process."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.installation import Installation, installed
from tests.faults.workload import Workload
from tests.postgres import NoPostgresError
from tests.secret_watch.files import Files


@pytest.fixture(scope="package")
def installation() -> Iterator[Installation]:
    """Two web servers, two workers, a beat, PostgreSQL, Valkey and a sandbox; all alive at first."""
    # Not pytest's own folder: root's is closed to the user that PostgreSQL runs as.
    with tempfile.TemporaryDirectory(prefix="slipway-faults-", ignore_cleanup_errors=True) as name:
        try:
            with installed(Path(name)) as everything:
                yield everything
            Files().search_folder(Path(name))
        except NoPostgresError as missing:
            pytest.skip(str(missing))


@pytest.fixture(scope="package")
def workload(installation: Installation) -> Workload:
    """Four ECS services that have been deployed once."""
    workload = Workload(installation)
    workload.create(4)
    workload.deploy_all("1.27")
    return workload
