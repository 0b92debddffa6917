"""What others have chosen and a look may not show."""

from __future__ import annotations

from contextlib import ExitStack

from zun.domain.resources import MEMORY_MB, VCPU
from zun.scheduler.choices import Choices
from zun.scheduler.filters import Host
from zun.scheduler.weights import best_first, with_unseen


def test_a_choice_counts_for_looks_that_began_before_its_claim_was_over() -> None:
    choices = Choices()
    with choices.look() as before, choices.look() as mine:
        with mine.choice("p1", {VCPU: 1, MEMORY_MB: 16}), choices.look() as meanwhile:
            assert meanwhile.unseen() == {"p1": {VCPU: 1, MEMORY_MB: 16}}
        assert before.unseen() == {"p1": {VCPU: 1, MEMORY_MB: 16}}
        with choices.look() as after:
            assert after.unseen() == {}


def test_choices_of_one_provider_add_up() -> None:
    choices = Choices()
    with choices.look() as look, ExitStack() as stack:
        for amounts in ({VCPU: 1}, {VCPU: 2, MEMORY_MB: 8}):
            stack.enter_context(look.choice("p1", amounts))
        stack.enter_context(look.choice("p2", {VCPU: 4}))
        assert look.unseen() == {"p1": {VCPU: 3, MEMORY_MB: 8}, "p2": {VCPU: 4}}


def test_nothing_is_kept_once_nobody_looks() -> None:
    choices = Choices()
    with choices.look() as first:
        for number in range(3):
            with choices.look() as look, look.choice(str(number), {VCPU: 1}):
                pass
        assert set(first.unseen()) == {"0", "1", "2"}
    assert choices.made == []


def test_a_host_that_others_have_chosen_is_no_longer_the_best() -> None:
    one, two = (
        Host(name, name, "nova", disabled=False, up=True, used={VCPU: 1}, capacity={VCPU: 8}) for name in ("a", "b")
    )
    assert best_first([one, two], {VCPU: 1})[0] is one
    seen = [with_unseen(host, {"a": {VCPU: 1, MEMORY_MB: 1}}) for host in (one, two)]
    assert best_first(seen, {VCPU: 1})[0] is two
    assert seen[0].used == {VCPU: 2, MEMORY_MB: 1}
    assert seen[1] is two
