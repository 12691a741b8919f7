"""`make test-aws` against the emulation: killed and refused; nothing is left."""

from __future__ import annotations

import time
from functools import partial

import pytest

from proof.budget import SCALES, Budget, BudgetTooSmall, Work, choose_scale
from proof.parts import PARTS, price


@pytest.mark.timeout(900)
def test_killed_proof_is_found_by_its_tag(cloud):
    process = cloud.start("--yes", "--parts", "stop")
    cloud.wait_for("proof: deploy: ", process)
    while "cloudformation" not in cloud.things():
        time.sleep(0.1)
    process.kill()
    process.wait()
    assert {"dynamodb", "s3", "sqs", "events"} <= cloud.things().keys()
    for record in (cloud.folder / "aws-proof").iterdir():
        record.unlink()
    assert cloud.run("--clean") == 2
    assert "give --yes" in cloud.log()
    assert cloud.run("--clean", "--yes") == 0, cloud.log()
    assert cloud.things() == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--yes", "--budget", "0.3"], "BUDGET=0.3 is too small"), ([], "no terminal to ask on")],
)
def test_refused_proof_makes_nothing(cloud, words, said):
    assert cloud.run(*words) == 2
    assert said in cloud.log()
    assert cloud.things() == {}


@pytest.mark.parametrize("cents", [62, 65, 80, 100, 150, 198, 200, 1000])
def test_scale_is_the_largest_within_the_budget(cents):
    scale = choose_scale(partial(price, PARTS), cents / 100)
    assert price(PARTS, scale) <= cents / 100
    assert all(price(PARTS, larger) > cents / 100 for larger in SCALES if larger > scale)
    assert (scale == 1) == (cents >= 198)


def test_part_is_allowed_while_its_price_is_left():
    work = Work(runs=2, rows=1000, seconds=60)
    assert work.dollars > 2 * work.max_cost > 2 * 1000 * 0.625e-6
    assert Budget(work.dollars).allows(work)
    assert not Budget(work.dollars, spent=0.0001).allows(work)
    with pytest.raises(BudgetTooSmall, match=r"may cost \$0.01"):
        choose_scale(lambda _: 0.005, 0.001)
