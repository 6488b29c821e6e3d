#!/usr/bin/env python3
"""Regenerates the figures that READMEs quote from tests/evidence and compares them with what the READMEs say.

evidence.py            compares; exit 1 and a diff where a README differs
evidence.py --write    writes the regenerated tables into the READMEs
"""
import difflib
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYOUTS = ("nn", "nt", "tn", "tt")
NUMBER = r"([\d.]+)"
LINE = re.compile(
    rf"(\d+x\d+x\d+) (nn|nt|tn|tt)\s+(.*?)\s+(?:aligned|bounded|repack|realign)\s+\S+ cublas {NUMBER} us {NUMBER} TF \| "
    rf"ours {NUMBER} us {NUMBER} TF \| {NUMBER}x \[.*?\] \| {NUMBER} \[.*?\] of ceiling {NUMBER} TF"
    rf"(?: \| {NUMBER} \[.*?\] of aligned)?"
)


def spread(values, digits):
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def measured(evidence):
    """{(shape, note): {layout: figures}} from the lines of bench_gemm."""
    shapes = {}
    for match in filter(None, map(LINE.match, evidence.read_text().splitlines())):
        shape, layout, note = match.groups()[:3]
        names = ("cublas_us", "cublas", "ours_us", "ours", "of_cublas", "of_ceiling", "ceiling", "of_aligned")
        row = dict(zip(names, (None if x is None else float(x) for x in match.groups()[3:])))
        shapes.setdefault((shape, note), {})[layout] = row
    for (shape, note), rows in shapes.items():
        if sorted(rows) != list(LAYOUTS):
            sys.exit(f"{evidence.name}: {shape} {note} has the layouts {sorted(rows)}, not all of {LAYOUTS}")
    return shapes


def gemm_table(evidence):
    """The table of gemm/README.md."""
    shapes = measured(evidence)
    lines = [
        "| M, N, K | what | nn | nt | tn | tt | of the ceiling | of the aligned neighbour | of cuBLAS |",
        "|---|---|---:|---:|---:|---:|---|---|---|",
    ]
    for (shape, note), rows in shapes.items():
        if note == "small":
            continue
        cells = [f"{rows[name]['ours']:.0f} ({rows[name]['cublas']:.0f})" for name in LAYOUTS]
        aligned = [rows[name]["of_aligned"] for name in LAYOUTS]
        cells.append(spread([rows[name]["of_ceiling"] for name in LAYOUTS], 3))
        cells.append("" if None in aligned else spread(aligned, 3))
        cells.append(spread([rows[name]["of_cublas"] for name in LAYOUTS], 2))
        lines.append(f"| {shape.replace('x', ', ')} | {note.replace(' padded', '')} | " + " | ".join(cells) + " |")
    if len(lines) < 12:
        sys.exit(f"{evidence.name}: only {len(lines) - 2} shapes were read")
    return lines


def random_table(evidence):
    """The table of shapes drawn at random, in three classes of M N K."""
    shapes = {tuple(map(int, shape.split("x"))): rows for (shape, _), rows in measured(evidence).items()}
    if len(shapes) != 50:
        sys.exit(f"{evidence.name}: {len(shapes)} shapes were read, not 50")
    lines = ["| M N K | shapes | of cuBLAS: worst | median | best |", "|---|---:|---|---:|---:|"]
    limits = (0, 2**25, 2**30, 2**63)
    for low, high in zip(limits, limits[1:]):
        ratios = sorted(
            (row["of_cublas"], f"{m}, {n}, {k} {layout}")
            for (m, n, k), rows in shapes.items() if low <= m * n * k < high for layout, row in rows.items()
        )
        name = f"below 2^{high.bit_length() - 1}" if low == 0 else f"2^{low.bit_length() - 1} and more" if high == 2**63 else "between"
        worst, median, best = ratios[0], statistics.median(r for r, _ in ratios), ratios[-1][0]
        lines.append(f"| {name} | {len(ratios) // len(LAYOUTS)} | {worst[0]:.2f} ({worst[1]}) | {median:.2f} | {best:.2f} |")
    return lines


def main():
    write = sys.argv[1:] == ["--write"]
    readme, folder = ROOT / "gemm/README.md", ROOT / "tests/evidence"
    text = readme.read_text().splitlines()
    for evidence, make in ((folder / "bench_gemm_h200.txt", gemm_table), (folder / "bench_gemm_random_h200.txt", random_table)):
        table = make(evidence)
        first = text.index(table[0]) if table[0] in text else sys.exit(f"{readme}: the table {table[0]} is missing")
        last = first
        while last < len(text) and text[last].startswith("|"):
            last += 1
        if not write and text[first:last] != table:
            print("\n".join(difflib.unified_diff(text[first:last], table, str(readme), str(evidence), lineterm="")))
            sys.exit(1)
        text[first:last] = table
        print(f"[ passed ] evidence: {len(table) - 2} rows of gemm/README.md follow from {evidence.name}")
    if write:
        readme.write_text("\n".join(text) + "\n")


main()
