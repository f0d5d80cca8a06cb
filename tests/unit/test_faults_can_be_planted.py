"""Every fault of the table has its place in the code, and a test by that name (`make test-long` plants them)."""

from pathlib import Path

import pytest

import ergonet
from tests.faults.run import ROOT, planted
from tests.faults.table import FAULTS

SOURCE = Path(ergonet.__file__).parent


def test_there_are_as_many_as_the_table_promises():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 25


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_its_place(fault):
    text = (SOURCE / fault.file).read_text()
    assert planted(fault, text) != text
    assert (ROOT / fault.test[0]).exists()
