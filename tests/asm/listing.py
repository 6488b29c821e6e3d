"""What assemble.py reads off a disassembly."""
import re
from collections import Counter


def instructions_of(listing):
    """{symbol: its instructions in the order of the listing}."""
    found, current = {}, None
    for line in listing.splitlines():
        head = re.match(r"\s*Function : (\S+)", line)
        if head:
            current = found.setdefault(head.group(1), [])
        # "/*0a10*/   @!P0 LDGSTS.E.BYPASS.128 [R3], ..." - a predicate may stand before the name.
        body = re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", line)
        if body and current is not None:
            current.append(body.group(1))
    return found


def matches(instruction, wanted):
    """The name, and modifiers in order: LDGSTS.E.128 matches LDGSTS.E.BYPASS.LTC128B.128, LDG does not match LDGSTS."""
    modifiers = iter(instruction.split("."))
    return instruction.split(".")[0] == wanted.split(".")[0] and all(part in modifiers for part in wanted.split("."))


def total(instructions, wanted):
    return sum(matches(instruction, wanted) for instruction in instructions)


def runs(instructions, kinds):
    """[[kind, how often one after the other], ...] of the instructions of one of the kinds, each of the most special."""
    found, special_first = [], sorted(kinds, key=lambda kind: -kind.count("."))
    for instruction in instructions:
        kind = next((kind for kind in special_first if matches(instruction, kind)), None)
        if kind is None:
            continue
        if found and found[-1][0] == kind:
            found[-1][1] += 1
        else:
            found.append([kind, 1])
    return found


def order_problems(instructions, order):
    """`order`: "LDG x4, STS x4": in the instructions, those of the kinds named, from first to last, and no others. STS.128,
    if named, is not STS. With a last item "...", more may follow."""
    items = [item.strip() for item in order.split(",")]
    more = len(items) > 1 and items[-1] == "..."
    wanted = [re.fullmatch(r"(\S+) x([1-9]\d*)", item) for item in items[:len(items) - more]]
    if not all(wanted):
        return [f"'{order}' is no order: 'LDG x4, STS x4' would be one"]
    wanted = [[match.group(1), int(match.group(2))] for match in wanted]
    found = runs(instructions, {kind for kind, _ in wanted})
    text = lambda sequence: ", ".join(f"{kind} x{times}" for kind, times in sequence) or "none"
    same = found[:len(wanted)] == wanted if more else found == wanted
    return [] if same else [f"the order is {text(found)}, not {order}"]


def difference(first, second):
    """How often each instruction occurs, modifiers included, where that differs; empty where nothing does."""
    counts = Counter(first), Counter(second)
    return ", ".join(f"{counts[0][name]} and {counts[1][name]} {name}" for name in sorted(counts[0] | counts[1])
                     if counts[0][name] != counts[1][name])
