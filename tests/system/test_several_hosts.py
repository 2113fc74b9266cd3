"""Runs over several hosts, which are network namespaces: a short form of `support/several_hosts.py`."""

from __future__ import annotations

import pytest

from support.hosts import MPIRUN, Hosts, NoHosts
from support.several_hosts import Campaign

pytestmark = [pytest.mark.mpi, pytest.mark.slow]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    folder = tmp_path_factory.mktemp("hosts")
    if not MPIRUN.exists():
        pytest.skip(f"there is no {MPIRUN}; pip install '.[mpi]'")
    try:
        with Hosts(2, folder, "1gbit"):
            pass
    except NoHosts as reason:
        pytest.skip(str(reason))
    return Campaign(folder)


def test_a_run_that_loses_a_host_has_the_same_bits_when_resumed_on_the_other(campaign: Campaign) -> None:
    campaign.lost(2, 1, "processes killed", [0])


def test_a_run_directory_that_is_not_shared_is_refused(campaign: Campaign) -> None:
    campaign.not_shared()


def test_other_images_on_one_host_are_refused_with_its_name(campaign: Campaign) -> None:
    campaign.other_images()
