"""Re-cut a Python tree by maps: move, merge, split, rename; rewrite imports, dotted strings, paths."""
import ast, io, os, re, subprocess, sys, tokenize
from collections import defaultdict
from pathlib import Path

FACADES = Path(__file__).with_name("facades.txt")
ROOT = Path(sys.argv[1]).resolve()
MAPS = [Path(p) for p in sys.argv[2:] if not p.startswith("--")]
OPTS = {p for p in sys.argv[2:] if p.startswith("--")}
os.chdir(ROOT)
files = subprocess.check_output(["git", "ls-files"], text=True).split("\n")
files = [f for f in files if f and Path(f).exists()]
pys = [f for f in files if f.endswith(".py")]
errors, warnings = [], []

def dotted(path):
    p = path[:-3].replace("/", ".")
    return p[:-9] if p.endswith(".__init__") else p

# ---- maps ------------------------------------------------------------------
move, sym_move, ren, docs, delete = {}, {}, {}, {}, set()
order = {}
for m in MAPS:
    for n, raw in enumerate(m.read_text().splitlines(), 1):
        line = raw.split("  #")[0].strip()
        if not line or line.startswith("#"): continue
        where = f"{m.name}:{n}"
        if line.startswith("doc "):
            p, _, t = line[4:].partition(":"); docs[p.strip()] = t.strip(); continue
        if line.startswith("delete "):
            delete.add(line[7:].split(":")[0].strip()); continue
        isren = line.startswith("rename ")
        if isren: line = line[7:]
        a, arrow, b = line.partition("->")
        a, b = a.strip(), b.strip()
        if not arrow: errors.append(f"{where}: {raw}"); continue
        if isren:
            p, _, s = a.partition("::"); ren[(p.strip(), s.strip())] = b
        elif "::" in a:
            p, _, s = a.partition("::"); sym_move[(p.strip(), s.strip())] = b
        else:
            if a in move: errors.append(f"{where}: {a} twice")
            move[a] = b; order[a] = len(order)
for a in list(move):
    if a not in pys: errors.append(f"map names {a}, which does not exist"); del move[a]
mod_of = {dotted(f): f for f in pys}          # dotted -> path
packages = {dotted(f) for f in pys if f.endswith("/__init__.py")}
top = {f.split("/")[0] for f in pys if "/" in f}

def new_path(path): return move.get(path, path)
def target_of(path, name):
    return sym_move.get((path, name), new_path(path))
def new_name(path, name): return ren.get((path, name), name)

# ---- parse -----------------------------------------------------------------
class Mod: pass
mods = {}
for f in pys:
    src = Path(f).read_text()
    m = Mod(); m.path = f; m.src = src; m.dotted = dotted(f); m.is_pkg = f.endswith("__init__.py")
    m.tree = ast.parse(src)
    m.lines = src.splitlines(keepends=True)
    m.defs = {}; m.imports = {}      # name -> node ; name -> ("mod", dotted) | ("sym", module, name) | ("ext",)
    mods[f] = m

def names_bound(stmt):
    out = []
    if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)): out.append(stmt.name)
    elif isinstance(stmt, ast.Assign):
        for t in stmt.targets:
            for n in ast.walk(t):
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store): out.append(n.id)
    elif isinstance(stmt, (ast.AnnAssign, ast.AugAssign)) and isinstance(stmt.target, ast.Name): out.append(stmt.target.id)
    elif isinstance(stmt, (ast.If, ast.Try, ast.For, ast.With)):
        for n in ast.walk(stmt):
            if isinstance(n, (ast.FunctionDef, ast.ClassDef)): out.append(n.name)
            elif isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store): out.append(n.id)
    elif hasattr(ast, "TypeAlias") and isinstance(stmt, ast.TypeAlias): out.append(stmt.name.id)
    return out

def is_internal(modname): return modname.split(".")[0] in top and (modname in mod_of or modname.split(".")[0] in top)

def is_import_block(stmt):
    if isinstance(stmt, (ast.Import, ast.ImportFrom)): return True
    if isinstance(stmt, ast.If) and isinstance(stmt.test, ast.Name) and stmt.test.id == "TYPE_CHECKING":
        return all(isinstance(s, (ast.Import, ast.ImportFrom)) for s in stmt.body)
    return False

for m in mods.values():
    for stmt in m.tree.body:
        if is_import_block(stmt): continue
        for n in names_bound(stmt): m.defs.setdefault(n, stmt)
    for node in ast.walk(m.tree):
        pass

def find_symbol(modname, name, seen=()):
    """-> ("mod", dotted) | ("sym", path, name) | None"""
    sub = f"{modname}.{name}"
    path = mod_of.get(modname)
    if path:
        m = mods[path]
        if name in m.defs: return ("sym", path, name)
        if (path, name) not in seen:
            for stmt in m.tree.body:
                stmts = stmt.body if isinstance(stmt, ast.If) else [stmt]
                for s in stmts:
                    if isinstance(s, ast.ImportFrom):
                        for al in s.names:
                            if (al.asname or al.name) == name:
                                if s.module and s.module.split(".")[0] in top:
                                    r = find_symbol(s.module, al.name, (*seen, (path, name)))
                                    if r: return r
                                return ("extsym", path, name)
                    elif isinstance(s, ast.Import):
                        for al in s.names:
                            if (al.asname or al.name.split(".")[0]) == name: return ("extsym", path, name)
    if sub in mod_of: return ("mod", sub)
    return None

# façades: an __init__ that re-exports names
facade_exports = {}    # old package dotted -> {name: ("sym", path, name)}
for f, m in mods.items():
    if not m.is_pkg or m.path.startswith(("tests/", "benchmarks/")): continue
    exp = {}
    for s in m.tree.body:
        if isinstance(s, ast.ImportFrom) and s.module and s.module.split(".")[0] in top:
            for al in s.names:
                r = find_symbol(s.module, al.name)
                if r and r[0] == "sym": exp[al.asname or al.name] = r
    if exp and "__all__" in m.src: facade_exports[m.dotted] = exp
exported = defaultdict(set)   # (path, name) -> old façades
for pk, exp in facade_exports.items():
    for n, r in exp.items(): exported[(r[1], r[2])].add(pk)
new_facades = set()
for pk in facade_exports:
    new_facades.add(dotted(new_path(mod_of[pk])))
EXTRA = [l.strip() for l in (FACADES.read_text().split() if FACADES.exists() else [])]
new_facades |= set(EXTRA)

def home(path, name):
    """-> (new module path, new name)"""
    return target_of(path, name), new_name(path, name)

def facade_for(path, name):
    """The new façade to import an exported symbol from, or None."""
    tp, _ = home(path, name)
    td = dotted(tp)
    if not exported.get((path, name)): return None
    parts = td.split(".")
    for i in range(len(parts) - 1, 0, -1):
        p = ".".join(parts[:i])
        if p in new_facades: return p
    return None

def new_mod_dotted(old):   # old dotted module -> new dotted (default target)
    path = mod_of[old]
    if path in delete: return old
    return dotted(new_path(path))

# ---- scope: global names in a module ----------------------------------------
class Refs(ast.NodeVisitor):
    """Collects Name nodes (and string annotations) that refer to module globals; local imports too."""
    def __init__(self, m):
        self.m = m; self.stack = []; self.found = []; self.local_imports = []; self.attrs = {}
        self.parent = {}
        self.locals_of_def = {}
    def bound(self, node):
        names = set(); globs = set()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            a = node.args
            for x in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]:
                if x: names.add(x.arg)
        body = node.body if isinstance(node.body, list) else [node.body]
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)): body = []
        todo = list(body)
        while todo:
            n = todo.pop()
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.add(n.name); continue
            if isinstance(n, (ast.Lambda, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
                # walrus inside comprehension binds here
                for k in ast.walk(n):
                    if isinstance(k, ast.NamedExpr): names.add(k.target.id)
                continue
            if isinstance(n, ast.Global): globs.update(n.names)
            if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)): names.add(n.id)
            if isinstance(n, ast.ExceptHandler) and n.name: names.add(n.name)
            if isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name: names.add(n.name)
            if isinstance(n, ast.MatchMapping) and n.rest: names.add(n.rest)
            if isinstance(n, (ast.Import, ast.ImportFrom)):
                for al in n.names: names.add(al.asname or al.name.split(".")[0])
            todo.extend(ast.iter_child_nodes(n))
        return names - globs
    def is_local(self, name):
        for kind, names in reversed(self.stack):
            if kind == "class" and (kind, names) is not self.stack[-1]: continue
            if name in names: return True
        return False
    def visit_Name(self, node):
        if not self.is_local(node.id): self.found.append((node.id, node.lineno, node.col_offset, node))
    def visit_Attribute(self, node):
        if isinstance(node.value, (ast.Name, ast.Attribute)): self.parent[id(node.value)] = node
        self.generic_visit(node)
    def func(self, node):
        for d in node.decorator_list: self.visit(d)
        for x in ast.walk(node.args):
            if isinstance(x, ast.arg) and x.annotation is not None: self.annotation(x.annotation)
        for x in [*node.args.defaults, *[k for k in node.args.kw_defaults if k]]: self.visit(x)
        if node.returns is not None: self.annotation(node.returns)
        self.stack.append(("func", self.bound(node)))
        for s in node.body: self.visit(s)
        self.stack.pop()
    visit_FunctionDef = func
    visit_AsyncFunctionDef = func
    def visit_Lambda(self, node):
        for x in [*node.args.defaults, *[k for k in node.args.kw_defaults if k]]: self.visit(x)
        self.stack.append(("func", self.bound(node))); self.visit(node.body); self.stack.pop()
    def visit_ClassDef(self, node):
        for d in node.decorator_list: self.visit(d)
        for b in node.bases: self.visit(b)
        for k in node.keywords: self.visit(k.value)
        self.stack.append(("class", self.bound(node)))
        for s in node.body: self.visit(s)
        self.stack.pop()
    def comp(self, node):
        names = set()
        for g in node.generators:
            for n in ast.walk(g.target):
                if isinstance(n, ast.Name): names.add(n.id)
        self.visit(node.generators[0].iter)
        self.stack.append(("func", names))
        for i, g in enumerate(node.generators):
            if i: self.visit(g.iter)
            for c in g.ifs: self.visit(c)
        for part in ("elt", "key", "value"):
            if hasattr(node, part): self.visit(getattr(node, part))
        self.stack.pop()
    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = comp
    def visit_AnnAssign(self, node):
        self.annotation(node.annotation); self.visit(node.target)
        if node.value: self.visit(node.value)
    def annotation(self, node):
        for n in ast.walk(node):
            if isinstance(n, ast.Constant) and isinstance(n.value, str):
                self.string(n)
        self.visit(node)
    def string(self, n):
        try: e = ast.parse(n.value, mode="eval")
        except SyntaxError: return
        for k in ast.walk(e):
            if isinstance(k, ast.Name) and not self.is_local(k.id):
                fake = ast.Name(id=k.id, ctx=ast.Load()); fake.lineno = n.lineno; fake.col_offset = n.col_offset + 1 + k.col_offset
                self.found.append((k.id, fake.lineno, fake.col_offset, fake))
    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id in ("cast", "TypeVar") and node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str) and node.func.id == "cast":
            self.string(node.args[0])
        self.generic_visit(node)
    def visit_Import(self, node): self.local_imports.append((node, bool(self.stack)))
    visit_ImportFrom = visit_Import

def local_names_anywhere(m):
    out = set()
    for n in ast.walk(m.tree):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store): out.add(n.id)
        elif isinstance(n, ast.arg): out.add(n.arg)
    return out

# ---- rewriting one old module -------------------------------------------------
def offset(m, lineno, col):
    line = m.lines[lineno - 1]
    return m.starts[lineno - 1] + len(line.encode()[:col].decode())

def import_line(modname, name, asname):
    return f"from {modname} import {name}" + (f" as {asname}" if asname and asname != name else "")

def module_import(new, asname=None):
    if "." in new:
        pkg, _, last = new.rpartition(".")
        return f"from {pkg} import {last}" + (f" as {asname}" if asname and asname != last else ""), last
    return f"import {new}" + (f" as {asname}" if asname else ""), new

def process(m):
    m.starts = [0]
    for l in m.lines: m.starts.append(m.starts[-1] + len(l))
    r = Refs(m); r.visit(m.tree); m.refs = r
    edits = []           # (start, end, text)
    bindings = {}        # global name -> resolution
    m.own_new = new_path(m.path)
    taken_locals = None
    # names of module aliases: no two alike, none that the file uses for something else
    taken = {new_name(m.path, n) for n in m.defs} | local_names_anywhere(m)
    for node, is_local in r.local_imports:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for al in node.names:
                res = find_symbol(node.module, al.name) if node.module.split(".")[0] in top else None
                if res is None or res[0] != "mod":
                    taken.add(al.asname or (new_name(res[1], res[2]) if res and res[0] == "sym" else al.name))
        elif isinstance(node, ast.Import):
            for al in node.names: taken.add(al.asname or al.name.split(".")[0])
    alias_of = {}
    def alias(nd, old_local):
        """The local name of a module: its last part, or with its package's name before it."""
        if nd in alias_of: return alias_of[nd]
        last = nd.rpartition(".")[2]
        name = last
        if name in alias_of.values() or (name in taken and name != old_local):
            parent = nd.rpartition(".")[0].rpartition(".")[2] or nd
            name = f"{parent}_{last}"
        alias_of[nd] = name
        return name
    # unchanged ones first: they keep their names
    for node, is_local in r.local_imports:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level and node.module.split(".")[0] in top:
            for al in node.names:
                res = find_symbol(node.module, al.name)
                if res and res[0] == "mod":
                    nd = new_mod_dotted(res[1])
                    if al.asname: alias_of.setdefault(nd, al.asname) if al.asname != al.name else None
                    if nd.rpartition(".")[2] == (al.asname or al.name): alias_of.setdefault(nd, al.asname or al.name)
    # import statements
    m.import_edits = {}
    for node, is_local in r.local_imports:
        lines_out = []
        changed = False
        if isinstance(node, ast.Import):
            for al in node.names:
                if al.name in mod_of and al.name.split(".")[0] in top and "." in al.name:
                    nd = new_mod_dotted(al.name)
                    if not al.asname and nd != al.name:
                        # dotted uses: a.b.c.name
                        lines_out.append(f"import {nd}"); changed = True
                        bindings.setdefault(al.name.split(".")[0], ("top",))
                        continue
                    lines_out.append(f"import {nd}" + (f" as {al.asname}" if al.asname else "")); changed = changed or nd != al.name
                else:
                    lines_out.append(f"import {al.name}" + (f" as {al.asname}" if al.asname else ""))
        else:
            if node.level: errors.append(f"{m.path}:{node.lineno} relative import"); continue
            if node.module.split(".")[0] not in top: continue
            groups = []
            for al in node.names:
                if al.name == "*": groups.append((f"from {new_mod_dotted(node.module)} import *", None)); continue
                local = al.asname or al.name
                res = find_symbol(node.module, al.name)
                if res is None:
                    errors.append(f"{m.path}:{node.lineno} cannot resolve {node.module}.{al.name}"); continue
                if res[0] == "sym":
                    tp, nn = home(res[1], res[2])
                    via = node.module
                    fac = facade_for(res[1], res[2]) if via in facade_exports else None
                    # inside the façade's own package import directly
                    td = fac or dotted(tp)
                    if al.asname and al.asname != al.name: newlocal = al.asname if al.asname not in (nn,) else nn
                    elif is_local: newlocal = al.name if nn != al.name else nn
                    else: newlocal = nn
                    text = import_line(td, nn, newlocal)
                    groups.append((text, (local, newlocal, ("sym", tp, nn))))
                elif res[0] == "mod":
                    nd = new_mod_dotted(res[1])
                    newlocal = al.asname or (local if is_local else alias(nd, local))
                    text, last = module_import(nd, newlocal)
                    groups.append((text, (local, newlocal, ("mod", res[1], nd))))
                else:
                    groups.append((import_line(new_mod_dotted(node.module) if node.module in mod_of else node.module, al.name, al.asname), None))
            lines_out = [g[0] for g in groups]
            old_text = ast.get_source_segment(m.src, node)
            simple = [import_line(node.module, al.name, al.asname) for al in node.names]
            changed = simple != lines_out
            for _, b in groups:
                if b and not is_local: bindings[b[0]] = b
                elif b and is_local: m.__dict__.setdefault("local_bind", {})[b[0]] = b
        if changed:
            s = offset(m, node.lineno, node.col_offset); e = offset(m, node.end_lineno, node.end_col_offset)
            indent = " " * node.col_offset
            # keep trailing comment (noqa) on each line
            rest = m.src[e:].split("\n", 1)[0]
            comment = ""
            if rest.strip().startswith("#"): comment = "  " + rest.strip(); e += len(rest)
            edits.append((s, e, ("\n" + indent).join(t + comment for t in lines_out)))
            m.import_edits[id(node)] = [t + comment for t in lines_out]
        else:
            m.import_edits[id(node)] = None
    m.bindings = bindings
    # module aliases: attribute access
    extra_imports = defaultdict(set)   # new path of the block -> import lines
    for name, lineno, col, node in r.found:
        b = bindings.get(name)
        if b and len(b) == 3:
            if b[2][0] == "sym":
                if b[1] != name:
                    s = offset(m, lineno, col); edits.append((s, s + len(name), b[1]))
            else:
                parent = r.parent.get(id(node))
                s = offset(m, lineno, col)
                if parent is not None:
                    res = find_symbol(b[2][1], parent.attr)
                    e = offset(m, parent.end_lineno, parent.end_col_offset)
                    if res and res[0] == "sym":
                        tp, nn = home(res[1], res[2])
                        nd = dotted(tp)
                        if b[2][1] in facade_exports and parent.attr in facade_exports[b[2][1]]:
                            nd = facade_for(res[1], res[2]) or nd
                        if tp == block_target(m, lineno):   # became its own module
                            edits.append((s, e, nn)); continue
                        if nd != b[2][2]:
                            text, _ = module_import(nd, alias(nd, name))
                            extra_imports[block_target(m, lineno)].add(text)
                            edits.append((s, e, f"{alias(nd, name)}.{nn}")); continue
                        edits.append((s, e, f"{b[1]}.{nn}")); continue
                    elif res and res[0] == "mod":
                        nd = new_mod_dotted(res[1]); last = alias(nd, name); text, _ = module_import(nd, last)
                        if nd.rpartition(".")[0] != b[2][2] or last != parent.attr:
                            extra_imports[block_target(m, lineno)].add(text); edits.append((s, e, last)); continue
                if b[1] != name: edits.append((s, s + len(name), b[1]))
        elif b and b[0] == "top":
            # a.b.c.symbol: find the longest module prefix
            chain, n = [name], node
            while id(n) in r.parent: n = r.parent[id(n)]; chain.append(n.attr)
            full = ".".join(chain)
            for k in range(len(chain), 0, -1):
                pre = ".".join(chain[:k])
                if pre in mod_of:
                    s = offset(m, lineno, col)
                    nd = new_mod_dotted(pre)
                    if nd != pre: edits.append((s, s + len(pre), nd))
                    break
        elif name in m.defs:
            nn = new_name(m.path, name); tp = target_of(m.path, name); bt = block_target(m, lineno)
            s = offset(m, lineno, col)
            if nn != name: edits.append((s, s + len(name), nn))
            if tp != bt: extra_imports[bt].add(import_line(dotted(tp), nn, None))
    # definitions renamed
    for name, stmt in m.defs.items():
        nn = new_name(m.path, name)
        if nn == name: continue
        if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and stmt.name == name:
            s = offset(m, stmt.lineno, stmt.col_offset)
            k = m.src.index(name, s); edits.append((k, k + len(name), nn))
        # assignments: Names at module level are in r.found as Store
    m.edits = sorted(set(edits))
    last = -1
    for s, e, t in m.edits:
        if s < last: errors.append(f"{m.path}: overlapping edits at {m.src[s:e]!r} -> {t!r}")
        last = e
    m.extra = extra_imports

def block_target(m, lineno):
    for stmt, names in m.blocks:
        start = min([stmt.lineno, *[d.lineno for d in getattr(stmt, "decorator_list", [])]])
        if start <= lineno <= stmt.end_lineno:
            for n in names:
                if (m.path, n) in sym_move: return sym_move[(m.path, n)]
    return new_path(m.path)

for m in mods.values():
    m.blocks = [(s, names_bound(s)) for s in m.tree.body]

# ---- strings, comments, docs ---------------------------------------------------
dotted_map = {}
for path in {*move}:
    if path in delete: continue
    o, n = dotted(path), dotted(new_path(path))
    if o != n and "." in o: dotted_map[o] = n
    for name in mods[path].defs:
        tp, nn = home(path, name)
        if (dotted(tp), nn) != (o, name): dotted_map[f"{o}.{name}"] = f"{dotted(tp)}.{nn}"
for pk, exp in facade_exports.items():
    for n, r in exp.items():
        tp, nn = home(r[1], r[2])
        fac = facade_for(r[1], r[2]) or dotted(tp)
        if (fac, nn) != (pk, n): dotted_map[f"{pk}.{n}"] = f"{fac}.{nn}"
path_map = {p: n for p, n in move.items() if p != n}
if dotted_map:
    DOT = re.compile(r"(?<![\w./-])(" + "|".join(re.escape(k) for k in sorted(dotted_map, key=len, reverse=True)) + r")(?![\w/])")
else: DOT = re.compile(r"(?!)")
if path_map:
    PATHRE = re.compile(r"(?<![\w.-])(" + "|".join(re.escape(k) for k in sorted(path_map, key=len, reverse=True)) + r")(?![\w])")
else: PATHRE = re.compile(r"(?!)")
MODELS = {}
for f, m in mods.items():
    if "models" in f.split("/")[1:2][0:1] or f.endswith("/models.py") or "/models/" in f:
        for n, stmt in m.defs.items():
            if isinstance(stmt, ast.ClassDef):
                a, b = f.split("/")[0], home(f, n)[0].split("/")[0]
                if a != b or home(f, n)[1] != n: MODELS[f"{a}.{n}"] = f"{b}.{home(f, n)[1]}"
LABEL = re.compile(r"(?<=[\"'])(" + "|".join(re.escape(k) for k in sorted(MODELS, key=len, reverse=True)) + r")(?=[\"'])") if MODELS else re.compile(r"(?!)")
def retext(t):
    t = LABEL.sub(lambda k: MODELS[k.group(1)], t)
    t = PATHRE.sub(lambda k: path_map[k.group(1)], t)
    return DOT.sub(lambda k: dotted_map[k.group(1)], t)

def retokens(src):
    if not (DOT.search(src) or PATHRE.search(src) or LABEL.search(src)): return src
    out, starts = [], [0]
    lines = src.splitlines(keepends=True)
    for l in lines: starts.append(starts[-1] + len(l))
    pos = 0
    for tok in tokenize.generate_tokens(io.StringIO(src).readline):
        if tok.type in (tokenize.STRING, tokenize.COMMENT):
            s = starts[tok.start[0]-1] + tok.start[1]; e = starts[tok.end[0]-1] + tok.end[1]
            out.append(src[pos:s]); out.append(retext(src[s:e])); pos = e
    out.append(src[pos:])
    return "".join(out)

for m in mods.values(): process(m)
if errors:
    print("\n".join(errors[:60])); print(len(errors), "errors"); sys.exit(1)

def edited(m, s, e):
    out, pos = [], s
    for a, b, t in m.edits:
        if a < s or b > e: continue
        out.append(m.src[pos:a]); out.append(t); pos = b
    out.append(m.src[pos:e])
    return "".join(out)

# ---- assembling new modules ------------------------------------------------------
groups = defaultdict(list)
for f in pys:
    if f in delete: continue
    groups[new_path(f)].append(f)
for (f, n), t in sym_move.items():
    if t not in groups or f not in groups[t]: groups[t].append(f)
results, removed = {}, set()

def block_span(m, i):
    """The text of a top-level statement with the comments above it."""
    stmt = m.tree.body[i]
    first = min([stmt.lineno, *[d.lineno for d in getattr(stmt, "decorator_list", [])]])
    prev_end = m.tree.body[i-1].end_lineno if i else 0
    return prev_end, first, stmt.end_lineno

for target, olds in sorted(groups.items()):
    single = len(olds) == 1 and new_path(olds[0]) == target and not any(k[0] == olds[0] for k in sym_move)
    if single:
        m = mods[olds[0]]
        text = edited(m, 0, len(m.src))
        extra = sorted(m.extra.get(target, ()))
        if extra:
            # after the last top-level import or docstring
            lines = text.splitlines(keepends=True)
            tree = ast.parse(text); at = 0
            for s in tree.body:
                if isinstance(s, (ast.Import, ast.ImportFrom)) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) and at == 0): at = s.end_lineno
                else: break
            text = "".join(lines[:at]) + "\n".join(extra) + "\n" + "".join(lines[at:])
        results[target] = retokens(text)
        continue
    # order olds by dependencies among them
    # the main one first (order in map), but dependencies before
    dep = {f: set() for f in olds}
    for f in olds:
        for b in mods[f].bindings.values():
            if len(b) == 3:
                src = None
                if b[2][0] == "mod": src = mod_of[b[2][1]]
                else:
                    for g in olds:
                        if g != f and any(home(g, n) == (b[2][1], b[2][2]) for n in mods[g].defs): src = g
                if src in dep and src != f: dep[f].add(src)
    seq, done = [], set()
    rest = sorted(olds, key=lambda f: order.get(f, 1e9))
    while rest:
        for f in rest:
            if dep[f] <= done: seq.append(f); done.add(f); rest.remove(f); break
        else:
            warnings.append(f"{target}: import cycle among {rest}"); seq += rest; break
    future, imports, typing_blocks, body = [], [], [], []
    doc, bound = None, {}
    for f in seq:
        m = mods[f]
        mine = new_path(f) == target
        for i, stmt in enumerate(m.tree.body):
            prev_end, first, end = block_span(m, i)
            s, e = m.starts[first-1], m.starts[end] if end < len(m.starts) else len(m.src)
            lead_start = m.starts[prev_end]
            if i == 0 and isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant) and isinstance(stmt.value.value, str):
                if mine and doc is None: doc = m.src[s:e].rstrip("\n")
                continue
            if isinstance(stmt, ast.ImportFrom) and stmt.module == "__future__":
                future.append(m.src[s:e].rstrip("\n")); continue
            lead = m.src[lead_start:s].strip("\n")
            if is_import_block(stmt):
                text = edited(m, s, e).rstrip("\n")
                if isinstance(stmt, ast.If): typing_blocks.append(text)
                else:
                    if "  #" in text.split("\n")[-1] or lead.strip().startswith("#"): warnings.append(f"{target}: import with a comment from {f}: {text[:80]!r}")
                    imports.append(text)
                continue
            names = m.blocks[i][1]
            dest = next((sym_move[(f, n)] for n in names if (f, n) in sym_move), new_path(f))
            if dest != target: continue
            if names == ["__all__"]:
                warnings.append(f"{target}: __all__ of {f} dropped"); continue
            text = edited(m, lead_start, e).strip("\n")
            for n in names:
                nn = new_name(f, n)
                if nn in bound and bound[nn] != (f, n) and nn != "_": errors.append(f"{target}: {nn} is defined by {bound[nn]} and {(f, n)}")
                bound[nn] = (f, n)
            body.append((isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)), text))
        imports += sorted(m.extra.get(target, ()))
    # drop imports from itself
    own = dotted(target)
    keep, seen_names = [], {}
    for block in imports:
        for s in ast.parse(block).body:
            if isinstance(s, ast.ImportFrom) and s.module == own:
                for al in s.names:
                    if al.asname and al.asname != al.name: errors.append(f"{target}: imports {al.name} as {al.asname} from itself")
                continue
            src_txt = ast.get_source_segment(block, s)
            tail = block.split("\n")[s.end_lineno-1][s.end_col_offset:]
            if isinstance(s, ast.ImportFrom):
                for al in s.names:
                    k = al.asname or al.name; v = (s.module, al.name)
                    if k in seen_names and seen_names[k] != v: errors.append(f"{target}: {k} is imported from {seen_names[k]} and {v}")
                    if k in bound: errors.append(f"{target}: {k} is imported from {v} and defined by {bound[k]}")
                    seen_names[k] = v
            else:
                for al in s.names:
                    k = al.asname or al.name.split(".")[0]
                    if k in bound: errors.append(f"{target}: {k} is imported and defined by {bound[k]}")
            keep.append(src_txt + tail)
    if own_pkg := (own.rpartition(".")[0]):
        kept2 = []
        for t in keep:
            kept2.append(t)
        keep = kept2
    if target in docs: doc = f'"""{docs[target]}"""'
    parts = [doc or '""""""'] + future
    head = "\n".join([doc or f'"""{target}."""', "", *dict.fromkeys(future), *dict.fromkeys(keep), "", *typing_blocks])
    text, was_def = head, False
    for is_def, b in body:
        text += ("\n\n\n" if is_def or was_def else "\n") + b
        was_def = is_def
    results[target] = retokens(text + "\n")
# docs for moved single modules
for t, d in docs.items():
    if t in results:
        tree = ast.parse(results[t])
        if tree.body and isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Constant):
            n = tree.body[0]; lines = results[t].splitlines(keepends=True)
            old = "".join(lines[n.lineno-1:n.end_lineno])
            inner = ast.get_source_segment(results[t], n)[3:-3]
            rest = inner.split("\n", 1)[1] if "\n" in inner else ""
            new = f'"""{d}' + (("\n" + rest) if rest else "") + '"""\n'
            results[t] = "".join(lines[:n.lineno-1]) + new + "".join(lines[n.end_lineno:])
        else: results[t] = f'"""{d}"""\n\n' + results[t]
if errors:
    print("\n".join(errors[:80])); print(len(errors), "errors"); sys.exit(1)
# façades anew
for pk, exp in facade_exports.items():
    old_path = mod_of[pk]
    if old_path in delete: continue
same = lambda pk: all(home(r[1], r[2]) == (r[1], r[2]) for r in facade_exports[pk].values())
stay = {pk for pk in facade_exports if same(pk) and dotted(new_path(mod_of[pk])) == pk}
for fac in sorted(new_facades - stay):
    names = defaultdict(set)
    for (path, name), pks in exported.items():
        if facade_for(path, name) == fac:
            tp, nn = home(path, name)
            names[dotted(tp)].add(nn)
    if not names: continue
    path = fac.replace(".", "/") + "/__init__.py"
    old = results.get(path)
    doc = f'"""{docs[path]}"""' if path in docs else None
    extra_body = ""
    if old:
        t = ast.parse(old)
        if doc is None and t.body and isinstance(t.body[0], ast.Expr): doc = ast.get_source_segment(old, t.body[0])
        other = [s for s in t.body[1:] if not isinstance(s, (ast.Import, ast.ImportFrom)) and names_bound(s) != ["__all__"]]
        if other: warnings.append(f"{path}: has code beside imports, kept at its end"); extra_body = "\n\n" + "\n".join(ast.get_source_segment(old, s) for s in other)
        side = [ast.get_source_segment(old, s) for s in t.body if isinstance(s, (ast.Import, ast.ImportFrom)) and not (isinstance(s, ast.ImportFrom) and s.module and s.module.split(".")[0] in {p.split("/")[0] for p in results})]
    else: side = []
    lines = [f"from {mod} import {', '.join(sorted(ns))}" for mod, ns in sorted(names.items()) if mod != fac]
    allnames = sorted({n for ns in names.values() for n in ns})
    results[path] = (doc or f'"""{fac}."""') + "\n\n" + "\n".join(side + lines) + "\n\n__all__ = [\n" + "".join(f'    "{n}",\n' for n in allnames) + "]\n" + extra_body
if "--dry" in OPTS:
    print("\n".join(warnings)); print(len(results), "files"); sys.exit(0)
# ---- write: git mv the main source first so that history follows ---------------------
written = set()
for target, olds in sorted(groups.items()):
    mains = [f for f in olds if new_path(f) == target]
    if target in mains or not mains: continue
    main = max(mains, key=lambda f: len(mods[f].src))
    Path(target).parent.mkdir(parents=True, exist_ok=True)
for target, text in results.items():
    Path(target).parent.mkdir(parents=True, exist_ok=True)
for f in pys:
    if new_path(f) != f or f in delete:
        Path(f).unlink()
for target, text in results.items():
    if not Path(target).exists() or Path(target).read_text() != text: Path(target).write_text(text); written.add(target)
for f in files:
    if f.endswith((".md", ".toml", ".html", ".yaml", ".yml", ".cfg", ".txt", ".sh", ".js")) or f in ("Makefile", ".ci/run", "Dockerfile", ".pre-commit-config.yaml"):
        p = Path(f)
        if not p.exists() or p.is_symlink(): continue
        try: t = p.read_text()
        except UnicodeDecodeError: continue
        n = retext(t)
        if n != t: p.write_text(n)
# packages need an __init__
for target in {n for p, n in move.items() if p != n} | set(sym_move.values()):
    d = Path(target).parent
    while str(d) != ".":
        if not (d / "__init__.py").exists() and d.parts[0] not in ("benchmarks",) : (d / "__init__.py").write_text(f'"""{d}."""\n'); warnings.append(f"made {d}/__init__.py")
        d = d.parent
print("\n".join(warnings)); print(len(results), "files,", len(written), "written")
