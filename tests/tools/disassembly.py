"""What tests/asm/listing.py makes of a disassembly: names, predicates, modifiers, and the order of instructions."""
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "asm"))
from listing import difference, instructions_of, order_problems, total
from report import Cases

LISTING = """
\t\tFunction : batched
        /*0000*/                   LDC R1, c[0x0][0x28] ;      /* 0x00000a00ff017b82 */
        /*0010*/              @!P1 LDG.E R12, desc[UR22][R16.64] ;
        /*0020*/               @P0 LDG.E.U16 R13, desc[UR22][R18.64] ;
        /*0030*/                   IMAD.MOV.U32 R8, RZ, RZ, RZ ;
        /*0040*/              @UP2 LDGSTS.E.BYPASS.LTC128B.128 [R3], [R4.64] ;
        /*0050*/                   STS [R15], R12 ;
        /*0060*/                   STS.U16 [R16], R13 ;
        /*0070*/                   LDG.E R12, desc[UR22][R16.64] ;
        /*0080*/                   STS [R15], R12 ;
\t\tFunction : empty
\t\tFunction : torn
        /*0000*/                   LDG.E R12, desc[UR22][R16.64] ;
        /*0010*/                   STS [R15], R12 ;
        /*0020*/                   LDG.E R13, desc[UR22][R16.64] ;
        /*0030*/                   STS [R15], R13 ;
"""
cases = Cases("disassembly")
found = instructions_of(LISTING)


def expect(what, got, wanted):
    cases.check(what, None if got == wanted else f"{got}, not {wanted}")


expect("functions", sorted(found), ["batched", "empty", "torn"])
expect("instructions, predicates stripped", [len(found[name]) for name in ("batched", "empty", "torn")], [9, 0, 4])
expect("a name counts with any modifiers", total(found["batched"], "LDG"), 3)
expect("LDG is not LDGSTS", total(found["batched"], "LDGSTS"), 1)
expect("modifiers in order, others between", total(found["batched"], "LDGSTS.E.128"), 1)
expect("modifiers in another order", total(found["batched"], "LDGSTS.128.E"), 0)
expect("the order", order_problems(found["batched"], "LDG x2, STS x2, LDG x1, STS x1"), [])
expect("the order of some kinds", order_problems(found["batched"], "LDC x1, LDGSTS x1"), [])
expect("with modifiers", order_problems(found["batched"], "LDG.U16 x1, STS.U16 x1"), [])
expect("stores between loads", order_problems(found["torn"], "LDG x2, STS x2"),
       ["the order is LDG x1, STS x1, LDG x1, STS x1, not LDG x2, STS x2"])
expect("more than stated", order_problems(found["batched"], "LDG x2, STS x2"),
       ["the order is LDG x2, STS x2, LDG x1, STS x1, not LDG x2, STS x2"])
expect("fewer than stated", order_problems(found["torn"], "LDG x1, STS x1, LDG x1, STS x1, LDG x1"),
       ["the order is LDG x1, STS x1, LDG x1, STS x1, not LDG x1, STS x1, LDG x1, STS x1, LDG x1"])
expect("more may follow", order_problems(found["batched"], "LDG x2, STS x2, ..."), [])
expect("nothing need follow", order_problems(found["torn"], "LDG x1, STS x1, LDG x1, STS x1, ..."), [])
expect("what follows does not excuse", order_problems(found["torn"], "STS x1, LDG x1, ..."),
       ["the order is LDG x1, STS x1, LDG x1, STS x1, not STS x1, LDG x1, ..."])
expect("a special kind is not the general one",
       order_problems(found["batched"], "LDG x1, LDG.U16 x1, STS x1, STS.U16 x1, LDG x1, STS x1"), [])
expect("none of them", order_problems(found["empty"], "LDG x1"), ["the order is none, not LDG x1"])
expect("the same instructions", difference(["LDG.E", "STS", "LDG.E"], ["STS", "LDG.E", "LDG.E"]), "")
expect("others, and others as often", difference(["LDG.E", "STS", "MOV"], ["LDG.E", "LDG.E", "STS.U16", "MOV"]),
       "1 and 2 LDG.E, 1 and 0 STS, 0 and 1 STS.U16")
for malformed in ("...", "..., LDG x1", "LDG", "LDG x0", "LDG x4 STS x4", "LDG 4", ""):
    expect(f"'{malformed}' is refused", len(order_problems(found["batched"], malformed)), 1)
cases.finish()
