"""How durations, sizes, numbers and rates are written for people, everywhere alike."""


def clock(seconds: float) -> str:
    """A running time: minutes and seconds, hours when there are any.

    >>> clock(75), clock(3 * 3600 + 62)
    ('1:15', '3:01:02')
    """
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def time_left(spent: float, done: float, total: float) -> float:
    """Seconds that the rest takes if it goes on as fast as it went so far.

    >>> time_left(40.0, done=2, total=8)
    120.0
    """
    return spent * max(0.0, total - done) / done


def duration(seconds: float) -> str:
    """A length of time in text: two units at most, days from 72 hours on.

    >>> duration(3.2), duration(75), duration(7330), duration(200 * 3600)
    ('3 s', '1 min 15 s', '2 h 2 min', '8 days')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 72 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole / 86400:.0f} days"


def size(count: float) -> str:
    """A number of bytes, in powers of ten.

    >>> size(2.5e9), size(3e6), size(4200), size(900)
    ('2.5 GB', '3.0 MB', '4.2 kB', '900 B')
    """
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= one:
            return f"{count / one:.1f} {unit}"
    return f"{count:.0f} B"


def number(value: float | None, places: int = 4) -> str:
    """Significant digits, all of them from a thousand on; `-` for a missing value.

    >>> [number(x) for x in (-0.75, 257.61, 35829.4, 0.0, None)]
    ['-0.75', '257.6', '35,829', '0', '-']
    >>> [number(x, 3) for x in (257.61, 999.7, 0.01234)]
    ['258', '1,000', '0.0123']
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.{places}g}"


def signed(value: float, places: int = 3) -> str:
    """A difference: with its sign, also a positive one.

    >>> signed(2230.4), signed(-0.02214), signed(0.0)
    ('+2,230', '-0.0221', '0')
    """
    return ("+" if value > 0 else "") + number(value, places)


def digits(value: float | None) -> str:
    """Three significant digits with their zeros, so that a column of them is as precise.

    >>> [digits(x) for x in (0.01234, 3.1, 42.0, 1234.5, 0, None)]
    ['0.0123', '3.10', '42.0', '1,234', '0', '-']
    """
    if not value or abs(value) >= 999.5:
        return number(value)
    return f"{value:#.3g}".rstrip(".")


def rate(per_second: float) -> str:
    """How often something happens in a second.

    >>> rate(1234.5), rate(50.0), rate(0.251)
    ('1,234/s', '50/s', '0.251/s')
    """
    return f"{number(per_second, 3)}/s"
