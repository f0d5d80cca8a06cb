"""Draw the imports between the folders of the library, read from the code, as docs/pictures/layers.svg.

Usage::

    python tools/draw_layers.py            # write the picture
    python tools/draw_layers.py --check    # exit with 1 if the picture is out of date

A folder stands one row above the highest folder that it imports. An arrow implied by two others is left out.
"""

import argparse
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "pictures" / "layers.svg"
PACKAGE = "ergonet"
WALK = ("inference", "samplers", "trajectory", "hamiltonian", "target")  # from `sample` to the gradient
SAMPLING = {"inference", "adaptation", "samplers", "trajectory", "hamiltonian"}
GROUND = {"target", "draws", "diagnostics", "datasets"}
BOX, GAP, BEND, ROW, MARGIN = (112, 30), 24, 26, 66, 24
SWEEPS = 24
COLORS = {"sampling": ("#fff3e0", "#e07b00"), "ground": ("#e8f1fb", "#2f6fb5"), "other": ("#f3f3f3", "#777777")}

Edges = dict[str, set[str]]


def folder_imports() -> Edges:
    """The folders that each folder imports, without the modules at the top of the package, which all folders use."""
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=True, cache_dir=None)
    folders = {module.split(".")[1] for module in graph.modules if module.count(".") >= 2}
    edges: Edges = {folder: set() for folder in folders}
    for module in graph.modules:
        importer = module.split(".")[1] if "." in module else ""
        if importer not in folders:
            continue
        for imported in graph.find_modules_directly_imported_by(module):
            other = imported.split(".")[1] if "." in imported else ""
            if other in folders and other != importer:
                edges[importer].add(other)
    return edges


def floors(edges: Edges) -> dict[str, int]:
    """The row of every folder, counted from the bottom.

    Raises:
        ValueError: the imports are circular.
    """
    found: dict[str, int] = {}

    def floor(folder: str, above: tuple[str, ...]) -> int:
        if folder in above:
            raise ValueError(f"circular imports: {' -> '.join((*above, folder))}")
        if folder not in found:
            found[folder] = 1 + max((floor(other, (*above, folder)) for other in edges[folder]), default=-1)
        return found[folder]

    for folder in sorted(edges):
        floor(folder, ())
    return found


def reduced(edges: Edges) -> Edges:
    """The arrows that are not implied by others."""
    reach: Edges = {}
    for folder, _ in sorted(floors(edges).items(), key=lambda item: item[1]):
        reach[folder] = edges[folder].union(*(reach[other] for other in edges[folder]))
    return {
        folder: {other for other in others if not any(other in reach[third] for third in others - {other})}
        for folder, others in edges.items()
    }


def routes(edges: Edges, level: Mapping[str, int]) -> dict[tuple[str, str], list[str]]:
    """The points of each arrow: its two folders, and a bend in every row between them."""
    return {
        (a, b): [a, *(f"{a}>{b}@{row}" for row in range(level[a] - 1, level[b], -1)), b]
        for a, others in sorted(edges.items())
        for b in sorted(others)
    }


def places(edges: Edges, level: Mapping[str, int]) -> dict[str, tuple[float, float]]:
    """The centers of all boxes and bends; rows are ordered by repeated sweeps over the positions of neighbors."""
    neighbors: Edges = {}
    rows: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    for name in sorted(level):
        rows[level[name]].append(name)
    for route in routes(edges, level).values():
        for bend in route[1:-1]:
            rows[int(bend.rpartition("@")[2])].append(bend)
        for one, other in pairwise(route):
            neighbors.setdefault(one, set()).add(other)
            neighbors.setdefault(other, set()).add(one)
    width = max(sum(_width(name) for name in row) for row in rows)
    where = {name: x for row in rows for name, x in _spread(dict.fromkeys(row, width / 2), width).items()}
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 else reversed(rows):
            near = {name: sorted(where[other] for other in neighbors.get(name, ())) for name in row}
            where.update(_spread({name: _mean(near[name], where[name]) for name in row}, width))
    top = MARGIN + ROW * (len(rows) - 1) + BOX[1] / 2
    return {name: (MARGIN + where[name], top - ROW * number) for number, row in enumerate(rows) for name in row}


def _width(name: str) -> float:
    return BEND if "@" in name else BOX[0] + GAP


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _spread(wishes: Mapping[str, float], width: float) -> dict[str, float]:
    """Positions in the order of `wishes` and near them, without overlap and within the width."""
    names = sorted(wishes, key=lambda name: (wishes[name], name))
    placed: dict[str, float] = {}
    edge = 0.0
    for name in names:
        placed[name] = max(wishes[name], edge + _width(name) / 2)
        edge = placed[name] + _width(name) / 2
    edge = width
    for name in reversed(names):
        placed[name] = min(placed[name], edge - _width(name) / 2)
        edge = placed[name] - _width(name) / 2
    return placed


def picture(edges: Edges) -> str:
    """The picture as SVG."""
    level, arrows = floors(edges), reduced(edges)
    steps = [step for step in pairwise(WALK) if step[1] in edges.get(step[0], ())]
    for start, end in steps:
        arrows[start].add(end)
    where = places(arrows, level)
    width = max(x for x, _ in where.values()) + BOX[0] / 2 + MARGIN
    height = max(y for _, y in where.values()) + BOX[1] / 2 + MARGIN
    font = 'font-family="DejaVu Sans, Verdana, sans-serif" font-size="14"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" {font}>',
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="10" fill="#ffffff"/>',
    ]
    ways = sorted(routes(arrows, level).items(), key=lambda way: way[0] in steps)
    lines += [_arrow([where[place] for place in route], is_walk=arrow in steps) for arrow, route in ways]
    lines += [_box(name, where) for name in sorted(level)]
    return "\n".join([*lines, "</svg>", ""])


def _arrow(points: list[tuple[float, float]], *, is_walk: bool) -> str:
    """A curve from box to box that crosses the rows between them vertically, at its bends."""
    style = 'stroke="#e07b00" stroke-width="3.5"' if is_walk else 'stroke="#a8a8a8" stroke-width="1.4"'
    half, parts = BOX[1] / 2, []
    for number, (start, end) in enumerate(pairwise(points)):
        y1, y2 = start[1] + half, end[1] - half
        parts.append(f"{'L' if number else 'M'}{start[0]:.0f} {y1:.0f} ")
        middle = (y1 + y2) / 2
        parts.append(f"C{start[0]:.0f} {middle:.0f} {end[0]:.0f} {middle:.0f} {end[0]:.0f} {y2:.0f} ")
    return f'<path d="{"".join(parts).strip()}" fill="none" {style}/>'


def _box(name: str, where: Mapping[str, tuple[float, float]]) -> str:
    x, y = where[name]
    kind = "sampling" if name in SAMPLING else "ground" if name in GROUND else "other"
    fill, line = COLORS[kind]
    size = f'width="{BOX[0]}" height="{BOX[1]}" rx="6"'
    return (
        f'<rect x="{x - BOX[0] / 2:.0f}" y="{y - BOX[1] / 2:.0f}" {size} fill="{fill}" stroke="{line}"/>'
        f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle" fill="#222222">{name}</text>'
    )


def main() -> int:
    """Write or check the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    text = picture(folder_imports())
    if parser.parse_args().check:
        is_same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        print("the picture is up to date" if is_same else f"run {sys.executable} tools/draw_layers.py")
        return 0 if is_same else 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
