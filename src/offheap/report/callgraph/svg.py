"""The call graph as a picture in SVG (www.w3.org/TR/SVG11), made without Graphviz.

One picture serves as a file and within the HTML report, whose style sheet has the same classes and colours.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from rich.cells import cell_len

from offheap.analysis.totals.call_graph import CallGraph
from offheap.report.callgraph.box_text import CHARACTER, LINE, PADDING, BoxText, box_text, figure
from offheap.report.callgraph.places import LABEL_HEIGHT, EdgeLine, Places, places
from offheap.report.text import wording
from offheap.report.text.printable import printable

MARK = '<svg xmlns="http://www.w3.org/2000/svg" class="call-graph"'  # a picture begins with it
_MARGIN = 16.0  # pixels around the graph
_BASELINE = 12.5  # of a line's text, from its top
_HEAD_LINE = 20.0  # of the words above the graph
_LEAST_COLUMNS = 84  # for these words, even if the graph is narrower
_THICKEST = 7.0  # pixels of a call through which all memory was allocated
_ARROW = 4.0  # half its width
_BAR = 4.0  # height of the bar at the bottom of a box: the share that it allocated itself

# For light and dark themes, equal to web/src/style/theme.css: the report uses the same names.
_DAY = (
    "--surface:#fff;--text:#1b1f24;--muted:#59626e;--line:#aab2bc;--bad:#b3261e;--live:#c2571a;--on-fill:#15181c;"
    "--java:hsl(146 42% 66%);--native:hsl(35 82% 68%);--jvm:hsl(214 66% 75%);--kernel:hsl(276 48% 78%);"
    "--class:hsl(182 45% 72%);--unknown:hsl(215 9% 76%)"
)
_NIGHT = (
    "--surface:#1a1d23;--text:#e5e8ec;--muted:#9ba5b1;--line:#59616c;--bad:#ff8f86;--live:#f0905a;"
    "--java:hsl(146 33% 57%);--native:hsl(35 73% 59%);--jvm:hsl(214 57% 66%);--kernel:hsl(276 39% 69%);"
    "--class:hsl(182 36% 63%);--unknown:hsl(215 5% 67%)"
)
# web/src/style/call-graph.css has the same rules.
_RULES = """\
.call-graph text{font:12px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.call-graph text{fill:var(--text);white-space:pre}
.call-graph .cg-muted{fill:var(--muted)}
.call-graph .cg-title{font-weight:600}
.call-graph .cg-box{fill:var(--surface);stroke:var(--line)}
.call-graph .cg-on{fill:var(--on-fill)}
.call-graph .cg-java{fill:var(--java)}
.call-graph .cg-native{fill:var(--native)}
.call-graph .cg-jvm{fill:var(--jvm)}
.call-graph .cg-kernel{fill:var(--kernel)}
.call-graph .cg-class{fill:var(--class)}
.call-graph .cg-unknown{fill:var(--unknown)}
.call-graph .cg-own{fill:var(--live)}
.call-graph .cg-call{fill:none;stroke:var(--muted)}
.call-graph .cg-indirect{stroke-dasharray:5 4}
.call-graph .cg-up{stroke:var(--bad)}
.call-graph .cg-arrow{fill:var(--muted)}
.call-graph .cg-behind{fill:var(--surface)}
"""


def svg(graph: CallGraph, standalone: bool = True) -> str:
    """The picture; `standalone`: with its own style, which a page that embeds it has."""
    texts = [box_text(box) for box in graph.boxes]
    labels = [figure(call.amount) for call in graph.calls]
    found = places(
        [(text.width, text.height) for text in texts],
        [(call.caller, call.callee) for call in graph.calls],
        [cell_len(label) * CHARACTER + PADDING for label in labels],
    )
    head = list(_head(graph, any(way.up for way in found.lines)))
    columns = max(_LEAST_COLUMNS, *(cell_len(line) for line in head))
    width = max(found.width, columns * CHARACTER) + 2 * _MARGIN
    top = _MARGIN + _HEAD_LINE * (len(head) + 1) + PADDING
    height = top + found.height + _MARGIN
    aside = (width - found.width) / 2
    size = f"{width:.0f}", f"{height:.0f}"
    parts = [
        f'{MARK} width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" role="img">',
        f"<title>{escape(head[0])}</title>",
        *(_style() if standalone else ()),
        *_words(head, graph),
        f'<g transform="translate({aside:.1f} {top:.1f})">',
        *_calls(graph, found, labels),
        *(line for place, text in enumerate(texts) for line in _box(graph, found, place, text)),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _style() -> Iterator[str]:
    yield (
        f"<style>.call-graph{{{_DAY};background:var(--surface)}}\n"
        f"@media (prefers-color-scheme:dark){{.call-graph{{{_NIGHT}}}}}\n{_RULES}</style>"
    )
    yield '<rect class="cg-behind" width="100%" height="100%"/>'


def _head(graph: CallGraph, recursion: bool) -> Iterator[str]:
    yield f"Live memory by calls: {printable(wording.live(graph.live))}"
    yield printable(wording.process(graph.info)) + "; " + wording.mode(graph.info)
    if not graph.boxes:
        yield "Nothing is live."
        return
    both = graph.live.malloc_bytes.high and graph.live.mapped_bytes.high
    left = f"{wording.plural(graph.left_out, 'function')} below {_percent(graph.least_share)}"
    yield f"Left out: {left} and calls below {_percent(graph.least_call_share)} of live bytes."
    if both:
        yield "Shares are of malloc's live bytes, or of those of mappings where that is more."
    if any(len(box.functions) > 1 for box in graph.boxes):
        yield "A box lists functions that only pass memory on, callers first, and where they lead."
    if any(box.own.share for box in graph.boxes):
        yield "The bar below a box is the share that its last function allocated itself."
    if not all(call.direct for call in graph.calls):
        yield "Dashed: calls through functions that are left out."
    if recursion:
        yield "Red: calls that lead back up, in a recursion."


def _percent(share: float) -> str:
    return f"{share:.2%}".replace(".00%", "%")


def _words(head: list[str], graph: CallGraph) -> Iterator[str]:
    for number, line in enumerate(head):
        kind = "cg-title" if number == 0 else "cg-muted"
        yield _text(_MARGIN, _MARGIN + _HEAD_LINE * number + _BASELINE, line, kind)
    x, y = _MARGIN, _MARGIN + _HEAD_LINE * len(head)
    kinds = {frame.kind for box in graph.boxes for frame in box.functions}
    for kind, word in (
        *(("java", "Java"), ("native", "native"), ("jvm", "JVM"), ("kernel", "kernel")),
        *(("class", "class"), ("unknown", "unknown")),
    ):
        if kind in kinds:
            width = cell_len(word) * CHARACTER + PADDING
            yield _rectangle(kind, x, y, width, LINE)
            yield _text(x + PADDING / 2, y + _BASELINE, word, "cg-on")
            x += width + PADDING


def _text(x: float, y: float, text: str, kind: str = "", middle: bool = False) -> str:
    """The text's length is stated, so that it has the computed width in any font."""
    length = cell_len(text) * CHARACTER
    x = x - length / 2 if middle else x
    name = f' class="{kind}"' if kind else ""
    fits = f'textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs"' if text else ""
    return f'<text{name} x="{x:.1f}" y="{y:.1f}" {fits}>{escape(text)}</text>'


def _rectangle(kind: str, x: float, y: float, width: float, height: float) -> str:
    places = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="cg-{kind}" {places} rx="2"/>'


def _box(graph: CallGraph, found: Places, place: int, text: BoxText) -> Iterator[str]:
    box = graph.boxes[place]
    (x, y), width, height = found.boxes[place], text.width, text.height
    yield f"<g><title>{escape(text.tooltip)}</title>"
    yield (f'<rect class="cg-box" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3"/>')
    at = y
    for line in text.functions:
        yield _rectangle(line.kind or "box", x, at, width, LINE)
        yield _text(x + PADDING, at + _BASELINE, line.text, "cg-on" if line.kind else "cg-muted")
        at += LINE
    for number, line in enumerate(text.figures):
        yield _text(x + PADDING, at + _BASELINE + 1, line.text, "cg-title" if number == 0 else "")
        at += LINE
    if box.own.share > 0:
        yield _rectangle("own", x, y + height - _BAR, width * box.own.share, _BAR)
    yield "</g>"


def _calls(graph: CallGraph, found: Places, labels: list[str]) -> Iterator[str]:
    for call, way in zip(graph.calls, found.lines, strict=True):
        kinds = "cg-call" + ("" if call.direct else " cg-indirect") + (" cg-up" if way.up else "")
        thick = 1 + (_THICKEST - 1) * call.amount.share
        yield f'<path class="{kinds}" stroke-width="{thick:.1f}" d="{_path(way)}"/>'
        yield f'<path class="cg-arrow" d="{_arrow(way, thick)}"/>'
    # Above all lines.
    for label, way in zip(labels, found.lines, strict=True):
        (x, y), width = way.label, cell_len(label) * CHARACTER + PADDING / 2
        yield _rectangle("behind", x - width / 2, y - LABEL_HEIGHT / 2, width, LABEL_HEIGHT)
        yield _text(x, y + LABEL_HEIGHT / 4, label, middle=True)


def _path(way: EdgeLine) -> str:
    """Straight down through the layers, curved between them; it ends at the foot of the arrow."""
    first, *rest = way.points
    parts = [f"M{first[0]:.1f} {first[1]:.1f}"]
    before = first
    for x, y in rest:
        if x == before[0]:
            parts.append(f"V{y:.1f}")
        else:
            middle = (before[1] + y) / 2
            parts.append(f"C{before[0]:.1f} {middle:.1f} {x:.1f} {middle:.1f} {x:.1f} {y:.1f}")
        before = x, y
    return "".join(parts)


def _arrow(way: EdgeLine, thick: float) -> str:
    half = _ARROW + thick / 2
    (x, y), down = (way.points[0], -1.0) if way.up else (way.points[-1], 1.0)
    foot = y - down * 2 * half
    return f"M{x - half:.1f} {foot:.1f}L{x + half:.1f} {foot:.1f}L{x:.1f} {y:.1f}Z"
