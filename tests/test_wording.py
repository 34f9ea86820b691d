"""How numbers are written for people: at the borders between one unit and the next."""

from horizon_imagination.wording import clock, duration, number, size


def test_durations_are_said_as_people_do():
    assert [duration(x) for x in (0, 59.6, 3599, 3600, 100_000)] == [
        "0 s",
        "1 min 0 s",
        "59 min 59 s",
        "1 h 0 min",
        "27 h 46 min",
    ]


def test_a_duration_of_days_is_rounded_to_days():
    assert duration(72 * 3600 - 1) == "71 h 59 min" and duration(72 * 3600) == "3 days"


def test_a_clock_rolls_over_to_hours():
    assert [clock(x) for x in (0, 59.4, 59.6, 3599.6)] == ["0:00", "0:59", "1:00", "1:00:00"]


def test_rounding_does_not_leave_a_thousand_without_its_comma():
    assert [number(x) for x in (999.4, 999.6, -1234.5)] == ["999.4", "1,000", "-1,234"]


def test_sizes_choose_the_unit_that_leaves_a_number_above_one():
    assert [size(x) for x in (0, 999, 1000, 1e6, 1e9)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "1.0 MB",
        "1.0 GB",
    ]
