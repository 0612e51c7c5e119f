"""What omniidl makes of IDL files: the oracle of spec/orb_idl_oracle_spec.lua.

    python3 omniidl_oracle.py LIST        LIST: lines of "path<TAB>option option …"

Each file is compiled in a forked child (omniidl's parser has global state and can crash). For each one:
    F path
    D kind scoped-name repository-id what-it-consists-of        (separated by tabs)
    E line message                                              (errors in that file; other places follow as "E 0 file:line: message")
    X status                                                    (0 accepted, 1 refused, else crashed)
"""
import os
import subprocess
import sys

sys.path.insert(0, "/usr/lib/omniidl")
import _omniidl  # noqa: E402
from omniidl import idlast, idltype  # noqa: E402

BASIC = {
    idltype.tk_null: "null", idltype.tk_void: "void", idltype.tk_short: "short", idltype.tk_long: "long", idltype.tk_ushort: "ushort",
    idltype.tk_ulong: "ulong", idltype.tk_float: "float", idltype.tk_double: "double", idltype.tk_boolean: "boolean", idltype.tk_char: "char",
    idltype.tk_octet: "octet", idltype.tk_any: "any", idltype.tk_TypeCode: "TypeCode", idltype.tk_longlong: "longlong",
    idltype.tk_ulonglong: "ulonglong", idltype.tk_longdouble: "longdouble", idltype.tk_wchar: "wchar",
}


def name_of(decl):
    return "::".join(decl.scopedName())


def type_text(t):
    if t.kind() in BASIC:
        return BASIC[t.kind()]
    if isinstance(t, (idltype.String, idltype.WString)):
        return "%s<%d>" % ("string" if isinstance(t, idltype.String) else "wstring", t.bound())
    if isinstance(t, idltype.Sequence):
        return "sequence<%s,%d>" % (type_text(t.seqType()), t.bound())
    if isinstance(t, idltype.Fixed):
        return "fixed<%d,%d>" % (t.digits(), t.scale())
    if isinstance(t, idltype.Declared):
        return "::".join(t.scopedName())
    return "?"


def arrayed(t, declarator):
    return type_text(t) + "".join("[%d]" % n for n in declarator.sizes())


def value_text(kind, value):
    if kind == idltype.tk_boolean:
        return "TRUE" if value else "FALSE"
    if kind in (idltype.tk_float, idltype.tk_double, idltype.tk_longdouble):
        return "%.17g" % value
    if kind in (idltype.tk_char, idltype.tk_string):
        return value.encode("latin-1", "surrogateescape").hex() if all(ord(c) < 256 for c in value) else value.encode().hex()
    if kind == idltype.tk_wchar:
        return str(value)
    if kind == idltype.tk_wstring:
        return ",".join(str(c) for c in value)
    if kind == idltype.tk_enum:
        return value.identifier()
    return str(value)


def show(decl, kind, text):
    known = isinstance(decl, idlast.DeclRepoId)  # a factory has neither
    print("D", kind, name_of(decl) if known else decl.identifier(), decl.repoId() if known else "", text, sep="\t")


def members_of(node):
    parts = []
    for m in node.members():
        nested(m, m.memberType())
        parts += ["%s %s" % (arrayed(m.memberType(), d), d.identifier()) for d in m.declarators()]
    return ";".join(parts)


def nested(holder, declared):
    if holder.constrType():
        visit(declared.decl())


def signature(op):
    params = ["%s %s %s" % (("in", "out", "inout")[p.direction()], type_text(p.paramType()), p.identifier()) for p in op.parameters()]
    return "(%s)%s" % (",".join(params), " raises(%s)" % ",".join(name_of(r) for r in op.raises()) if op.raises() else "")


def union_text(node):
    nested(node, node.switchType())
    kind = node.switchType().unalias().kind()
    parts = []
    for case in node.cases():
        nested(case, case.caseType())
        for label in case.labels():
            text = "default" if label.default() else value_text(kind, label.value())
            parts.append("%s:%s %s" % (text, arrayed(case.caseType(), case.declarator()), case.declarator().identifier()))
    return "%s;%s" % (type_text(node.switchType()), ";".join(parts))


def bases_text(decl):
    return ",".join(name_of(getattr(b, "fullDecl", lambda b=b: b)()) for b in decl.inherits())


def visit_all(list):
    for d in list:
        visit(d)


def visit_value(d):
    show(d, "value", "%s;%s" % (bases_text(d), ",".join(name_of(s) for s in d.supports())))
    visit_all(d.contents())


def visit(d):
    if isinstance(d, idlast.Module):
        show(d, "module", "")
        visit_all(d.definitions())
    elif isinstance(d, idlast.Interface):
        show(d, "interface", "%s%s%s" % ("abstract " if d.abstract() else "", "local " if d.local() else "", bases_text(d)))
        visit_all(d.contents())
    elif isinstance(d, idlast.Const):
        show(d, "const", "%s=%s" % (type_text(d.constType()), value_text(d.constType().unalias().kind(), d.value())))
    elif isinstance(d, idlast.Typedef):
        nested(d, d.aliasType())
        for declarator in d.declarators():
            show(declarator, "alias", arrayed(d.aliasType(), declarator))
    elif isinstance(d, (idlast.Struct, idlast.Exception)):
        show(d, "struct" if isinstance(d, idlast.Struct) else "except", members_of(d))
    elif isinstance(d, idlast.Union):
        show(d, "union", union_text(d))
    elif isinstance(d, idlast.Enum):
        show(d, "enum", ",".join(e.identifier() for e in d.enumerators()))
        for e in d.enumerators():
            show(e, "enumerator", "")
    elif isinstance(d, idlast.Native):
        show(d, "native", "")
    elif isinstance(d, idlast.Operation):
        show(d, "operation", "%s%s %s" % ("oneway " if d.oneway() else "", type_text(d.returnType()), signature(d)))
    elif isinstance(d, idlast.Factory):
        show(d, "factory", signature(d))
    elif isinstance(d, idlast.Attribute):
        for declarator in d.declarators():
            show(declarator, "attribute", "%s%s" % ("readonly " if d.readonly() else "", type_text(d.attrType())))
    elif isinstance(d, idlast.StateMember):
        nested(d, d.memberType())
        for declarator in d.declarators():
            show(declarator, "statemember", "%s %s" % ("private" if d.memberAccess() else "public", arrayed(d.memberType(), declarator)))
    elif isinstance(d, idlast.ValueBox):
        nested(d, d.boxedType())
        show(d, "valuebox", type_text(d.boxedType()))
    elif isinstance(d, (idlast.Value, idlast.ValueAbs)):
        visit_value(d)


def child(path, options):
    if not [o for o in options if o == "-N"]:
        command = ["omnicpp", "-lang-c++", "-undef", "-D__OMNIIDL__=" + _omniidl.version] + options + [path]
        source = subprocess.Popen(command, stdout=subprocess.PIPE)
        tree = _omniidl.compile(os.fdopen(os.dup(source.stdout.fileno())), path)
        if source.wait() != 0:
            return 1
    else:
        tree = _omniidl.compile(path, path)
    if tree is None:
        return 1
    visit_all(tree.declarations())
    return 0


def report(path, read_end):
    for line in os.fdopen(read_end, errors="replace"):
        place, _, text = line.rstrip("\n").partition(": ")
        file, _, number = place.rpartition(":")
        if text.startswith("Warning:") or text.startswith(" ") or not number.isdigit():
            continue
        print("E", number if file == path else 0, text if file == path else line.rstrip("\n"), sep="\t")


def main():
    _omniidl.noForwardWarning()
    for line in open(sys.argv[1]):
        path, _, options = line.rstrip("\n").partition("\t")
        print("F", path, sep="\t", flush=True)
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            os.dup2(write_end, 2)
            status = 3
            try:
                status = child(path, options.split())
            finally:
                sys.stdout.flush()
                os._exit(status)
        os.close(write_end)
        report(path, read_end)
        print("X", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), sep="\t", flush=True)


main()
