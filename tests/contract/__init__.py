"""One suite a port, run on each of its implementations."""

import pytest

pytest.register_assert_rewrite("tests.contract.bus_suite")
