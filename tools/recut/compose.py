"""Translate the left sides of maps written for an older tree by the maps that were applied since."""
import sys
from pathlib import Path
move, sym = {}, {}
applied = [Path(p) for p in sys.argv[3:]]
def load(p):
    mv, sy = {}, {}
    for raw in p.read_text().splitlines():
        l = raw.split("  #")[0].strip()
        if not l or l.startswith(("#", "doc ", "delete ", "rename ")) or "->" not in l: continue
        a, b = (x.strip() for x in l.split("->"))
        (sy if "::" in a else mv)[a] = b
    return mv, sy
steps = [load(p) for p in applied]
def path(p, name=None):
    for mv, sy in steps:
        if name and f"{p}::{name}" in sy: p = sy[f"{p}::{name}"]
        else: p = mv.get(p, p)
    return p
out = []
for raw in Path(sys.argv[1]).read_text().splitlines():
    l = raw.strip()
    if not l or l.startswith(("#", "doc ")): out.append(raw); continue
    kind = next((k for k in ("delete ", "rename ") if l.startswith(k)), "")
    rest = l[len(kind):]
    a, sep, b = rest.partition("->") if "->" in rest else rest.partition(":")
    a = a.strip(); f, _, n = a.partition("::")
    new = path(f, n or None) + (f"::{n}" if n else "")
    out.append(f"{kind}{new} {sep} {b.strip()}" if sep == "->" else f"{kind}{new}{sep}{b}")
Path(sys.argv[2]).write_text("\n".join(out) + "\n")
