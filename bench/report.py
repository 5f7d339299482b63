#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables and plots of docs/performance.md from bench/results/*.json.

    bench/report.py            writes them
    bench/report.py --check    exits 1 if a page or plot does not match the results

A result with "rows" compares eyelet with a peer on one machine; "phases" compare it with that machine's limits,
measured in the same run. Needs only Python's standard library."""
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "performance.md"
IMAGES = ROOT / "docs" / "images"
# Machines in the order of the tables.
MACHINES = ["2026-11-22-h200", "2026-11-23-cpu-amx", "2026-11-24-cpu-zen4", "2026-11-24-cpu-avx2"]
COLORS = ["#0b6e4f", "#b8560f", "#2f5d9e", "#7a3b8f"]
PEER_COLOR = "#9aa0a6"
STYLE = ('font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif" '
         'font-size="13" fill="#1f2328"')


def load(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def number(value):
    if value >= 10000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.2f}"


def spread(figure):
    text = number(figure["median"])
    if "least" not in figure or figure["least"] == figure["most"]:
        return text
    return f"{text} ({number(figure['least'])} to {number(figure['most'])})"


def ratio(row):
    ours, theirs = row["eyelet"]["median"], row["peer"]["median"]
    return ours / theirs if row["higher_is_better"] else theirs / ours


def table_of_machine(result):
    lines = ["| | eyelet | llama.cpp | better by |", "| --- | --- | --- | --- |"]
    for row in result["rows"]:
        if row.get("superseded_by"):
            continue
        variant = f", `{row['variant']}`" if row["variant"].startswith("--") else ""
        lines.append(f"| {row['metric']}{variant} | {spread(row['eyelet'])} {row['unit']} "
                     f"| {spread(row['peer'])} {row['unit']} | {ratio(row):.2f} |")
    return lines


def table_of_cpus(results):
    """A row for each metric, a column for each machine: eyelet's value, llama.cpp's, and the ratio."""
    lines = ["| eyelet / llama.cpp (better by) | " + " | ".join(r["label"] for r in results) + " |",
             "| --- |" + " --- |" * len(results)]
    keys = []
    for result in results:
        keys += [(r["metric"], r["variant"], r["unit"]) for r in result["rows"]
                 if (r["metric"], r["variant"], r["unit"]) not in keys]
    for metric, variant, unit in keys:
        if variant.startswith("--") and "one sequence" not in metric:
            continue
        cells = []
        for result in results:
            row = next((r for r in result["rows"] if (r["metric"], r["variant"]) == (metric, variant)), None)
            cells.append(f"{number(row['eyelet']['median'])} / {number(row['peer']['median'])} ({ratio(row):.2f})"
                         if row else "")
        label = f"{metric}, `{variant}`" if variant.startswith("--") else metric
        lines.append(f"| {label}, {unit} | " + " | ".join(cells) + " |")
    return lines


def table_of_sequences(result):
    """A row for each model, a column for each number of sequences: total tok/s and the share of the read limit."""
    newest = {(r["model"], r["sequences"]): r for r in result["results"] if r["build"] == "after"}
    columns = sorted({n for _, n in newest})
    lines = ["| tok/s in all (share of the read limit) | " + " | ".join(str(n) for n in columns) + " |",
             "| --- |" + " --- |" * len(columns)]
    for model in sorted({m for m, _ in newest}):
        cells = []
        for n in columns:
            r = newest.get((model, n))
            share = f" ({100 * r['share_of_read_limit']:.0f} %)" if r and "share_of_read_limit" in r else ""
            cells.append(number(r["tokens_per_second"]) + share if r else "")
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return lines


def text(x, y, content, anchor="start", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {STYLE} {extra}>{content}</text>'


def bars_svg(results):
    """Ratios to llama.cpp: a bar for each of the most important metrics."""
    wanted = [("decode, one sequence", "decode"), ("prefill", "prefill"), ("vision encoder", "vision encoder"),
              ("first token", "image to first token")]
    left, width, row_height, top = 190, 470, 22, 64
    parts, y = [], top
    for result, color in zip(results, COLORS):
        parts.append(text(16, y + 14, result["label"], extra='font-weight="600"'))
        y += row_height
        for key, label in wanted:
            rows = [r for r in result["rows"] if key in r["metric"] and not r["variant"].startswith("--")
                    and not r["metric"].startswith("4B")]
            if not rows:
                continue
            value = ratio(rows[0])
            length = width * value / 6.5
            parts.append(text(left - 8, y + 14, label, "end"))
            parts.append(f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="15" rx="2" fill="{color}"/>')
            parts.append(text(left + length + 6, y + 15, f"{value:.2f} x"))
            y += row_height
        y += 10
    line = left + width / 6.5
    head = [text(16, 24, "eyelet beside llama.cpp on the same machine (llama.cpp = 1; longer is faster)",
                 extra='font-weight="600"'),
            f'<line x1="{line:.1f}" y1="{top - 8}" x2="{line:.1f}" y2="{y - 6}" stroke="{PEER_COLOR}" '
            'stroke-width="2" stroke-dasharray="4 3"/>',
            text(line, top - 12, "llama.cpp", "middle")]
    return svg(760, y + 8, head + parts)


def roofline_svg(results):
    """FLOP/s against FLOP per byte of weights: each machine's roof and its phases."""
    width, height, left, top, right, bottom = 760, 470, 90, 52, 190, 60
    x0, x1, y0, y1 = 0.0, 4.0, 10.0, 15.2

    def px(v):
        return left + (math.log10(v) - x0) / (x1 - x0) * (width - left - right)

    def py(v):
        return height - bottom - (math.log10(v) - y0) / (y1 - y0) * (height - top - bottom)

    parts = [text(16, 24, "Roofline: what each phase reaches of its machine's measured limits",
                  extra='font-weight="600"')]
    for e in range(5):
        x = px(10 ** e)
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{height - bottom}" stroke="#e3e6e8"/>')
        parts.append(text(x, height - bottom + 18, f"{10 ** e:,}", "middle"))
    for e, label in [(10, "10 G"), (11, "100 G"), (12, "1 T"), (13, "10 T"), (14, "100 T"), (15, "1 P")]:
        y = py(10 ** e)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}" stroke="#e3e6e8"/>')
        parts.append(text(left - 8, y + 4, label, "end"))
    parts.append(text((left + width - right) / 2, height - 14, "FLOP per byte of weights", "middle"))
    parts.append(text(0, 0, "FLOP/s", extra=f'transform="translate(22 {(top + height - bottom) / 2:.0f}) rotate(-90)"'))
    marks = {"decode, one sequence": "o", "decode, four sequences": "d", "prefill": "s", "vision encoder": "t"}
    lowest = 0.0
    for result, color in zip(results, COLORS):
        read, peak = result["limits"]["read_bytes_per_second"], result["limits"]["flop_per_second"]
        ridge = peak / read
        points = [(1, read), (ridge, peak), (10 ** x1, peak)]
        path = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        label_y = max(py(peak) + 4, lowest + 16)  # labels of close roofs must not overlap
        lowest = label_y
        parts.append(text(width - right + 6, label_y, result["label"], extra=f'style="fill:{color}"'))
        for phase in result["phases"]:
            parts.append(mark(marks[phase["phase"]], px(phase["flop_per_byte"]), py(phase["flop_per_second"]), color))
    y = height - bottom - 74
    for name, kind in marks.items():
        parts.append(mark(kind, width - right + 14, y, "#57606a"))
        parts.append(text(width - right + 26, y + 4, name))
        y += 22
    return svg(width, height, parts)


def mark(kind, x, y, color):
    if kind == "o":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{color}"/>'
    if kind == "s":
        return f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9" fill="{color}"/>'
    if kind == "d":
        return f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z" fill="{color}"/>'
    return f'<path d="M{x:.1f} {y - 6:.1f}l6 11h-12z" fill="{color}"/>'


def svg(width, height, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}" '
                      f'viewBox="0 0 {width} {height:.0f}">', '<rect width="100%" height="100%" fill="#ffffff"/>',
                      *parts, "</svg>", ""])


def page_with_tables(page, tables):
    """Replaces the text between "<!-- table NAME -->" and "<!-- end -->"."""
    out, skipping = [], False
    for line in page.split("\n"):
        if line == "<!-- end -->":
            skipping = False
        if not skipping:
            out.append(line)
        if line.startswith("<!-- table "):
            skipping = True
            out += tables[line.removeprefix("<!-- table ").removesuffix(" -->")]
    return "\n".join(out)


def main():
    results = [load(name) for name in MACHINES]
    tables = {name: table_of_machine(result) for name, result in zip(MACHINES, results)}
    tables["cpu"] = table_of_cpus(results[1:])
    for path in RESULTS.glob("*-sequences.json"):
        tables[path.stem] = table_of_sequences(json.loads(path.read_text()))
    wanted = {IMAGES / "beside-llamacpp.svg": bars_svg(results), IMAGES / "roofline.svg": roofline_svg(results),
              PAGE: page_with_tables(PAGE.read_text(), tables)}
    if "--check" not in sys.argv[1:]:
        for path, content in wanted.items():
            path.write_text(content)
        return 0
    stale = [path for path, content in wanted.items() if not path.exists() or path.read_text() != content]
    for path in stale:
        print(f"{path.relative_to(ROOT)}: does not match bench/results; run bench/report.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
