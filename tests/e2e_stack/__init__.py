"""The deployed pipeline, end to end: really deployed by `cdk`, to AWS on this machine."""

import pytest

pytest.register_assert_rewrite("tests.e2e_stack.runs")
