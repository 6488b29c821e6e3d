#!/usr/bin/env python3
"""Regenerates the figures that READMEs quote from tests/evidence and compares them with what the READMEs say.

evidence.py            compares; exit 1 and a diff where a README differs
evidence.py --write    writes the regenerated tables into the READMEs
"""
import difflib
import pathlib
import re
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


def gemm_table(evidence):
    """The table of gemm/README.md from the lines of bench_gemm."""
    shapes = {}
    for match in filter(None, map(LINE.match, evidence.read_text().splitlines())):
        shape, layout, note = match.groups()[:3]
        names = ("cublas_us", "cublas", "ours_us", "ours", "of_cublas", "of_ceiling", "ceiling", "of_aligned")
        row = dict(zip(names, (None if x is None else float(x) for x in match.groups()[3:])))
        shapes.setdefault((shape, note), {})[layout] = row
    lines = [
        "| M, N, K | what | nn | nt | tn | tt | of the ceiling | of the aligned neighbour | of cuBLAS |",
        "|---|---|---:|---:|---:|---:|---|---|---|",
    ]
    for (shape, note), rows in shapes.items():
        if note == "small":
            continue
        if sorted(rows) != list(LAYOUTS):
            sys.exit(f"{evidence.name}: {shape} {note} has the layouts {sorted(rows)}, not all of {LAYOUTS}")
        cells = [f"{rows[name]['ours']:.0f} ({rows[name]['cublas']:.0f})" for name in LAYOUTS]
        aligned = [rows[name]["of_aligned"] for name in LAYOUTS]
        cells.append(spread([rows[name]["of_ceiling"] for name in LAYOUTS], 3))
        cells.append("" if None in aligned else spread(aligned, 3))
        cells.append(spread([rows[name]["of_cublas"] for name in LAYOUTS], 2))
        lines.append(f"| {shape.replace('x', ', ')} | {note.replace(' padded', '')} | " + " | ".join(cells) + " |")
    if len(lines) < 12:
        sys.exit(f"{evidence.name}: only {len(lines) - 2} shapes were read")
    return lines


def main():
    write = sys.argv[1:] == ["--write"]
    readme, evidence = ROOT / "gemm/README.md", ROOT / "tests/evidence/bench_gemm_h200.txt"
    text = readme.read_text().splitlines()
    table = gemm_table(evidence)
    first = text.index(table[0]) if table[0] in text else sys.exit(f"{readme}: the table of figures is missing")
    last = first
    while last < len(text) and text[last].startswith("|"):
        last += 1
    if write:
        readme.write_text("\n".join(text[:first] + table + text[last:]) + "\n")
    elif text[first:last] != table:
        print("\n".join(difflib.unified_diff(text[first:last], table, str(readme), str(evidence), lineterm="")))
        sys.exit(1)
    print(f"[ passed ] evidence: {len(table) - 2} rows of gemm/README.md follow from {evidence.name}")


main()
