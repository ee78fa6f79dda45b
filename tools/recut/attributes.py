"""Rename unique identifiers everywhere: tokens, f-strings, strings that hold just the name or an ORM path, backticks in comments, templates."""
import re,sys,subprocess,collections
pairs=[]
for l in open('tools/recut/attributes.txt'):
    m=re.match(r'attr (\w+)\.(\w+) -> (\w+)(\s+# unique.*)?$',l.strip())
    if m and m[4]: pairs.append((m[1],m[2],m[3]))
files=[f for f in subprocess.check_output(['git','ls-files'],text=True).split('\n') if f.endswith(('.py','.html','.js','.txt')) and not f.startswith('tools/') and '/migrations/' not in f]
text={f:open(f).read() for f in files}
skip=[]
allpy="\n".join(t for f,t in text.items() if f.endswith('.py'))
for cls,old,new in pairs:
    # new must not exist as an attribute already in the class's family: only refuse if the word is used anywhere as `.new`
    hits=[f for f,t in text.items() if re.search(rf'\b{old}\b',t)]
    nontoken=[f for f in hits if not f.endswith('.py')]
    if len(old)<4 or not hits: skip.append((cls,old,new,'short/none')); continue
    dots=len(re.findall(rf'\.{old}\b',allpy)); words=len(re.findall(rf'\b{old}\b',allpy))
    print(f"{old:28} -> {new:30} dots {dots} words {words} files {len(hits)} {nontoken[:2]}")
print(skip)
if '--apply' in sys.argv:
    import io,tokenize
    bad={'target_health'}
    m={o:n for _,o,n in pairs if o not in bad and o not in {s[1] for s in skip}}
    for f,t in text.items():
        new=t
        if f.endswith('.py'):
            under={o:n for o,n in m.items() if '_' in o}
            if under: new=re.sub(r'\b('+'|'.join(map(re.escape,under))+r')\b',lambda k:under[k[1]],new)
            # ORM paths
            new=re.sub(r'(?<=__)('+'|'.join(map(re.escape,under))+r')(?=\b|__)',lambda k:under[k[1]],new)
            plain={o:n for o,n in m.items() if '_' not in o}
            if any(re.search(rf'\b{o}\b',new) for o in plain):
                out=[];last=(1,0);L=new.splitlines(True)
                ed=[]
                for tok in tokenize.generate_tokens(io.StringIO(new).readline):
                    if tok.type==tokenize.NAME and tok.string in plain: ed.append((tok.start,tok.string))
                for (r,c),s in reversed(ed): L[r-1]=L[r-1][:c]+plain[s]+L[r-1][c+len(s):]
                new=''.join(L)
        elif f.endswith('.html'):
            new=re.sub(r'(\{[{%].*?[%}]\})',lambda k:re.sub(r'\b('+'|'.join(map(re.escape,m))+r')\b',lambda q:m[q[1]],k[1]),t,flags=re.S)
        if new!=t: open(f,'w').write(new)
