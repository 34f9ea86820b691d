"""The parts of a self-contained page: style, tables, pictures, charts, and how it is written."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from horizon_imagination.errors import UsageError
from horizon_imagination.files import write_text
from horizon_imagination.provenance import provenance, told
from horizon_imagination.report.curves import Chart, as_svg, figure
from horizon_imagination.wording import number

STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5d6875;--line:#d9dee4;--back:#f5f6f8;
--card:#fff;--accent:#1f66b5;--good:#0b7a53;--bad:#b3401a}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ee;--soft:#9aa5b1;--line:#333c47;--back:#14181d;
--card:#1c2229;--accent:#7db4f0;--good:#5fc79b;--bad:#f09a6c}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1180px;margin:0 auto;padding:1.2rem 1rem 3rem}
h1{font-size:1.6rem;line-height:1.2;margin:.4rem 0 .2rem;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2.2rem 0 .6rem;padding-top:.4rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.2rem 0 .4rem}
p{margin:.3rem 0 .7rem;max-width:46rem}.soft,footer{color:var(--soft);font-size:.92rem}
footer{margin-top:2.4rem;padding-top:.6rem;border-top:1px solid var(--line)}
.numbers{display:grid;grid-template-columns:repeat(auto-fit,minmax(148px,1fr));
gap:.7rem;margin:1rem 0}
.number,.chart,.picture{background:var(--card);border:1px solid var(--line);border-radius:10px}
.number{padding:.6rem .8rem}.number b{display:block;font-size:1.35rem;line-height:1.25;
font-variant-numeric:tabular-nums}.number span{color:var(--soft);font-size:.84rem;line-height:1.35;
display:block;white-space:pre-line}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr));gap:.8rem}
.chart{padding:.5rem;margin:0}.chart svg{width:100%;height:auto;display:block}
.chart figcaption{color:var(--ink);font-weight:600;font-size:.95rem;line-height:1.3;
padding:.1rem .2rem .3rem}
.key{display:flex;flex-wrap:wrap;gap:0 .9rem;color:var(--soft);font-weight:400;font-size:.8rem}
.key i{display:inline-block;width:1.3em;margin-right:.35em;vertical-align:middle}
.picture{margin:0 0 .9rem;padding:.6rem;overflow-x:auto}
.picture img,.picture video{display:block;border-radius:4px;max-width:none}
.picture img.fit,.picture video{max-width:100%;height:auto}
figcaption{color:var(--soft);font-size:.88rem;padding:.4rem .2rem 0;max-width:46rem}
.strip{display:block;font-family:inherit;margin:0 0 .8rem}.strip image{image-rendering:pixelated}
.strip text{white-space:pre}.strip .ink{fill:var(--ink)}.strip .faint{fill:var(--soft)}
.strip .context{fill:var(--accent)}.strip .good{fill:var(--good)}.strip .bad{fill:var(--bad)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.92rem;margin:.4rem 0 1rem}
th,td{text-align:left;padding:.28rem .9rem .28rem 0;border-bottom:1px solid var(--line);
vertical-align:top}th{color:var(--soft);font-weight:600;font-size:.84rem}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
th.n{white-space:normal}td.list{white-space:normal;min-width:11rem}
td:first-child{white-space:nowrap}.words td{white-space:normal;min-width:8rem}
@media(max-width:640px){.words tr{display:block;padding:.3rem 0;border-bottom:1px solid var(--line)}
.words tr:has(th){display:none}.words td{display:block;border:0;padding:.1rem 0}
.words td:first-child{font-weight:600}}
code{font:.86em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
details{margin:.5rem 0}summary{cursor:pointer;color:var(--accent)}
.bar{display:inline-block;height:.75em;border-radius:3px;background:var(--accent);opacity:.75}
.warn{color:var(--bad)}
.swatch{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.45em}
.names{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;max-width:none}
.controls{display:flex;gap:.5rem;padding-top:.5rem}
button{font:inherit;font-size:.88rem;min-width:2.6rem;padding:.2rem .7rem;color:var(--ink);
background:var(--back);border:1px solid var(--line);border-radius:6px;cursor:pointer}
"""
SCRIPT = """
document.addEventListener("click",event=>{const move=event.target.dataset.move;
if(move===undefined)return;const film=event.target.closest("figure").querySelector("video");
if(move==="0"){film.paused?film.play():film.pause();return}
film.pause();const end=film.duration||0;
film.currentTime=(film.currentTime+Number(move)+end)%(end||1)});
"""
"""Buttons below a film: pause, and one frame back or on."""


class Markup(str):
    """Text that is HTML already."""


def page(title: str, body: Iterable[str]) -> str:
    """A whole page, self-contained; its last line says when, where and by what it was made."""
    content = "\n".join(part for part in body if part)
    script = f"<script>{SCRIPT}</script>\n" if "data-move" in content else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style></head>\n<body><main>\n"
        f"{content}\n<footer>Written by {escape(told(provenance()))}.</footer>\n</main>\n"
        f"{script}</body></html>\n"
    )


def write_page(path: Path, content: str) -> None:
    """Write a page, or another text beside it, atomically."""
    try:
        write_text(path, content)
    except OSError as error:
        raise UsageError(
            f"cannot write {path} ({error.strerror}); name a folder with --out"
        ) from error


def text(content: str) -> str:
    """Plain text made safe; HTML left alone."""
    return content if isinstance(content, Markup) else escape(content)


def paragraph(content: str, kind: str = "") -> str:
    """A paragraph."""
    return f"<p{_class(kind)}>{text(content)}</p>"


def heading(content: str, level: int = 2) -> str:
    """A heading."""
    return f"<h{level}>{text(content)}</h{level}>"


def numbers(items: Sequence[tuple[str, str]]) -> str:
    """Big numbers with what they are below."""
    cells = "".join(
        f'<div class="number"><b>{text(value)}</b><span>{text(label)}</span></div>'
        for value, label in items
    )
    return f'<div class="numbers">{cells}</div>' if items else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numeric: int | None = 1) -> str:
    """A table; columns from `numeric` on hold numbers, none if it is all words."""
    words = " words" if numeric is None else ""
    numeric = len(header) if numeric is None else numeric
    head = "".join(_cell("th", cell, i >= numeric) for i, cell in enumerate(header))
    body = "".join(
        "<tr>" + "".join(_cell("td", cell, i >= numeric) for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide{words}"><table><tr>{head}</tr>{body}</table></div>'


def folded(summary: str, content: str) -> str:
    """Content behind a line that opens it."""
    return f"<details><summary>{text(summary)}</summary>{content}</details>"


def charts(items: Iterable[Chart]) -> str:
    """Those charts that have something to show, side by side where there is room.

    Those whose curves have never changed are one line of text below them.
    """
    shown = [chart for chart in items if chart.drawable]
    drawn = "".join(
        f'<figure class="chart"><figcaption>{escape(chart.title)}{_key(chart)}</figcaption>'
        f"{as_svg(figure(chart))}</figure>"
        for chart in shown
        if not chart.flat
    )
    told = [_unchanged(chart) for chart in shown if chart.flat]
    below = paragraph(f"Never changed: {'; '.join(told)}.", "soft") if told else ""
    return (f'<div class="charts">{drawn}</div>' if drawn else "") + below or paragraph(
        "No data yet.", "soft"
    )


def _key(chart: Chart) -> str:
    """The names of the curves of a chart, in text that wraps, and what bold ones are."""
    names = "".join(
        f'<span><i style="border-top:3px {"dotted" if line.style == ":" else "solid"} '
        f'{line.colour}"></i>{escape(line.label)}</span>'
        for line in chart.named
    )
    windows = {line.smooth for line in chart.named if line.smoothed}
    about = "".join(f"<span>bold: mean of {window} epochs</span>" for window in sorted(windows))
    return f'<span class="key">{names}{about}</span>' if names else ""


def _unchanged(chart: Chart) -> str:
    """What a chart would show whose curves have one value each."""
    values = [f"{line.label} {number(float(line.y[-1]))}".strip() for line in chart.named]
    lone = [number(float(line.y[-1])) for line in chart.lines if len(line.y)]
    return f"{chart.title}: {', '.join(values or lone)}"


def image(address: str, about: str, caption: str = "", *, fit: bool = False) -> str:
    """A picture carried in the page, scrolled sideways where it is wider than the screen."""
    return (
        f'<figure class="picture"><img{_class("fit" if fit else "")} src="{address}" '
        f'alt="{escape(about)}">{_caption(caption)}</figure>'
    )


def strips(drawn: Iterable[str], caption: str = "") -> str:
    """Film strips as SVG, scrolled sideways where they are wider than the screen."""
    return f'<figure class="picture">{"".join(drawn)}{_caption(caption)}</figure>'


def film(address: str, caption: str = "", *, seconds: float = 0.25) -> str:
    """A film carried in the page; buttons below it pause it and go on by one frame of it."""
    buttons = "".join(
        f'<button type="button" data-move="{move:g}" aria-label="{about}">{sign}</button>'
        for move, about, sign in (
            (-seconds, "one frame back", "‹"),
            (0, "pause or play", "pause / play"),
            (seconds, "one frame on", "›"),
        )
    )
    return (
        f'<figure class="picture"><video src="{address}" autoplay loop muted playsinline></video>'
        f'<div class="controls">{buttons}</div>{_caption(caption)}</figure>'
    )


def swatch(colour: str, label: str) -> Markup:
    """A name beside its colour."""
    return Markup(f'<span class="swatch" style="background:{colour}"></span>{escape(label)}')


def legend(colours: dict[str, str]) -> str:
    """What the colours of several charts mean."""
    names = "".join(f"<span>{swatch(colour, name)}</span>" for name, colour in colours.items())
    return f'<p class="names">{names}</p>'


def bar(share: float) -> Markup:
    """A bar whose length is a share of ten letters."""
    return Markup(f'<span class="bar" style="width:{10 * share:.2f}em"></span>')


def _caption(content: str) -> str:
    return f"<figcaption>{text(content)}</figcaption>" if content else ""


def _cell(tag: str, content: str, numeric: bool) -> str:
    numeric = numeric and not isinstance(content, Markup)  # bars grow rightwards
    kind = "n" if numeric else ""
    if numeric and tag == "td" and ", " in content:  # the scores of many seeds may take two lines
        kind = "n list"
    return f"<{tag}{_class(kind)}>{text(content)}</{tag}>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
