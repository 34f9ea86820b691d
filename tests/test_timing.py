"""Timing: warm-up, medians, CPU time, and the trial that chooses the number of threads."""

import pytest
import torch

from horizon_imagination import timing
from horizon_imagination.timing import Seconds, call_seconds, choose_threads, timed

CPU = torch.device("cpu")


class Machine:
    """A clock that a step moves on, by a price that depends on the number of threads."""

    def __init__(self, price):
        self.price, self.now, self.calls = price, 0.0, []

    def step(self):
        threads = torch.get_num_threads()
        self.calls.append(threads)
        self.now += self.price[threads]

    def chosen(self, most=2):
        return choose_threads(self.step, most, clock=lambda: self.now).threads


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_two_threads_are_taken_where_they_are_faster_and_one_where_others_use_the_cores():
    assert Machine({1: 0.023, 2: 0.017}).chosen() == 2
    assert Machine({1: 0.032, 2: 0.066}).chosen() == 1


def test_a_gain_below_five_percent_is_not_worth_a_thread():
    assert Machine({1: 0.0104, 2: 0.0100}).chosen() == 1
    assert Machine({1: 0.0110, 2: 0.0100}).chosen() == 2


def test_all_powers_of_two_and_the_most_are_tried():
    machine = Machine({1: 0.09, 2: 0.05, 4: 0.03, 6: 0.04})
    assert machine.chosen(most=6) == 4 and set(machine.calls) == {1, 2, 4, 6}


def test_a_number_that_is_far_slower_is_tried_once():
    machine = Machine({1: 0.02, 2: 5.0})
    assert machine.chosen() == 1 and machine.calls.count(2) == 1


def test_slow_steps_have_two_rounds_alone():
    machine = Machine({1: 1.0, 2: 0.8})
    assert machine.chosen() == 2 and machine.calls == [1, 1, 2, 1, 2]  # one call to warm up


def test_a_trial_leaves_the_number_of_threads_as_it_was_even_if_a_step_fails():
    machine = Machine({1: 0.02})  # two threads have no price
    with pytest.raises(KeyError):
        machine.chosen()
    assert torch.get_num_threads() == 1


def test_one_core_needs_no_trial():
    machine = Machine({})
    assert machine.chosen(most=1) == 1 and not machine.calls


def test_timing_warms_up_first_and_repeats_slow_calls_three_times():
    calls = []
    found = timed(lambda: calls.append(1), CPU, repeats=5, warm_up=4, seconds=60)
    assert len(calls) == 9 and found.repeats == 5 and found.least_ms <= found.ms
    assert timed(lambda: None, CPU, repeats=5, warm_up=0, seconds=0).repeats == 3


def test_calls_in_a_row_share_the_time_between_two_drains(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    calls = []

    def slow():
        calls.append(1)
        now[0] += 0.02

    found = timed(slow, CPU, repeats=3, warm_up=0, in_a_row=4)
    assert len(calls) == 12 and found.repeats == 3
    assert found.ms == pytest.approx(20)  # a call's, not the sum of four


def test_a_thread_that_waits_for_the_core_is_noticed_by_its_cpu_time(monkeypatch):
    wall, cpu = [0.0], [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: wall[0])
    monkeypatch.setattr(timing.time, "thread_time", lambda: cpu[0])

    def step():
        wall[0] += 0.03
        cpu[0] += 0.01

    found = call_seconds(step, CPU, warm_up=1)
    assert found == pytest.approx((0.03, 0.01)) and found.busy
    assert not Seconds(0.030, 0.029).busy
