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


COPY_LINE = re.compile(
    rf"(\w+(?: \w+)?)\s+(\d+x\d+ .*?)\s+{NUMBER} us\s+{NUMBER} GB/s \| cudaMemcpy\s+{NUMBER} us\s+{NUMBER} GB/s \| "
    rf"{NUMBER}x \[{NUMBER}, {NUMBER}\]"
)


def copies(evidence):
    """{(kernel, what): figures} from the lines of bench_copy."""
    names = ("us", "rate", "memcpy_us", "memcpy_rate", "ratio", "low", "high")
    found = {}
    for match in filter(None, map(COPY_LINE.match, evidence.read_text().splitlines())):
        found[match.group(1), match.group(2)] = dict(zip(names, map(float, match.groups()[2:])))
    return found


def warm_and_cold(evidence):
    """The two runs of bench_copy, which must be of the same cases."""
    warm, cold = copies(evidence), copies(evidence.with_name(evidence.name.replace("warm", "cold")))
    if warm.keys() != cold.keys() or len(warm) < 20:
        sys.exit(f"{evidence.name}: {len(warm)} cases warm, {len(cold)} cold: the same, at least 20, are needed")
    return warm, cold


def ladder_table(evidence, current):
    """The ladder of copy/README.md: its last column; the others are the README's own."""
    warm, _ = warm_and_cold(evidence)
    lines = current[:2]
    for line in current[2:]:
        cells = line.split("|")
        name = re.search(r"copy_(\w+)\.cuh", cells[1]).group(1)
        figures = next(row for (kernel, _), row in warm.items() if kernel == f"ladder {name}")
        cells[-2] = f" {figures['rate']:.0f} ({figures['ratio']:.2f}) "
        lines.append("|".join(cells))
    return lines


def copy_table(kernel_of, header):
    def make(evidence, _):
        warm, cold = warm_and_cold(evidence)
        lines = [header, "|---|---|---:|---|---|"]
        for (kernel, what), row in warm.items():
            if not kernel_of(kernel):
                continue
            chill = cold[kernel, what]
            ratio = lambda r: f"{r['ratio']:.3f} [{r['low']:.3f}, {r['high']:.3f}]"
            lines.append(f"| {kernel} | {what} | {row['us']:.1f} us, {row['rate']:.0f} GB/s | {ratio(row)} | {ratio(chill)} |")
        return lines
    return make


CROPS = "| kernel | crop | warm | of cudaMemcpy, warm | of cudaMemcpy, cold |"
REPACKS = "| kernel | matrix | warm | of cudaMemcpy, warm | of cudaMemcpy, cold |"
LADDER = "| file | idea | architecture | GB/s (of cudaMemcpy) |"


def main():
    write = sys.argv[1:] == ["--write"]
    folder = ROOT / "tests/evidence"
    copy = folder / "bench_copy_warm_h200.txt"
    tables = (
        ("gemm/README.md", folder / "bench_gemm_h200.txt", None, lambda evidence, _: gemm_table(evidence)),
        ("gemm/README.md", folder / "bench_gemm_random_h200.txt", None, lambda evidence, _: random_table(evidence)),
        ("copy/README.md", copy, LADDER, ladder_table),
        ("copy/README.md", copy, CROPS, copy_table(lambda kernel: kernel.startswith("crop"), CROPS)),
        ("copy/README.md", copy, REPACKS, copy_table(lambda kernel: kernel == "repack", REPACKS)),
    )
    for name, evidence, header, make in tables:
        readme = ROOT / name
        text = readme.read_text().splitlines()
        head = header or make(evidence, None)[0]
        first = text.index(head) if head in text else sys.exit(f"{readme}: the table {head} is missing")
        last = first
        while last < len(text) and text[last].startswith("|"):
            last += 1
        table = make(evidence, text[first:last])
        if not write and text[first:last] != table:
            print("\n".join(difflib.unified_diff(text[first:last], table, str(readme), str(evidence), lineterm="")))
            sys.exit(1)
        text[first:last] = table
        print(f"[ passed ] evidence: {len(table) - 2} rows of {name} follow from {evidence.name}")
        if write:
            readme.write_text("\n".join(text) + "\n")


main()
