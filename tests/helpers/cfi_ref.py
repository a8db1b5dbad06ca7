#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
The rows of a file's .eh_frame or .debug_frame as readelf interprets them, in cfi_dump's words.

    cfi_ref.py FILE              the rows
    cfi_ref.py --compare FILE    reads cfi_dump's rows from stdin; says "N rows" or the differences

readelf has one letter, u, for registers that are unchanged and that are undefined, so both are left
out here, and taken out of what is compared with. It says no more than "exp" of expressions; those
are looked up in its raw listing.
"""
import re
import subprocess
import sys

SAVED = ["rbx", "rbp", "r12", "r13", "r14", "r15"]
FRAME = {"rbx": 128, "rbp": 120, "r12": 72, "r13": 80, "r14": 88, "r15": 96, "ra": 168}
PADDING = 16

ENTRY = re.compile(
    r"^([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ (CIE|FDE)"
    r'(?: "([^"]*)")?(?:.* cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+))?'
)
RAW_EXP = re.compile(r"^  DW_CFA_(def_cfa_expression|expression)(?:: r\d+ \((\w+)\))? \((.*)\)$")


class Entry:
    def __init__(self, match):
        self.offset, self.kind = match[1], match[2]
        self.augmentation, self.cie = match[3], match[4]
        self.start = int(match[5] or "0", 16)
        self.end = int(match[6] or "0", 16)
        self.rows = []  # (address, {column: text})
        self.expressions = [(0, {})]  # from that address on: {column: text}
        self.remembered = []

    def raw(self, address, line):
        """An operation of the raw listing."""
        now = self.expressions[-1][1]
        match = RAW_EXP.match(line)
        if match:
            column = "CFA" if match[1] == "def_cfa_expression" else match[2]
            now = dict(now, **{"ra" if column == "rip" else column: match[3]})
        elif line.startswith("  DW_CFA_remember_state"):
            self.remembered.append(now)
        elif line.startswith("  DW_CFA_restore_state"):
            now = self.remembered.pop()
        self.expressions.append((address, now))

    def expression(self, address, column):
        return [now for at, now in self.expressions if at <= address][-1].get(column)


def readelf(what, path):
    args = ["readelf", "--debug-dump=" + what, "--debug-dump=no-follow-links", "--wide", path]
    return subprocess.run(
        args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
    ).stdout.splitlines()


def sections(lines):
    """The entries of each section."""
    name, entries, columns, address = None, [], [], 0
    for line in lines:
        if line.startswith("Contents of the "):
            if name:
                yield name, entries
            name, entries = line.split()[3], []
            continue
        match = ENTRY.match(line)
        if match:
            entries.append(Entry(match))
            columns, address = [], 0
        elif line.startswith("   LOC"):
            columns = line.split()[1:]
        elif columns and re.match(r"^[0-9a-f]{16} ", line):
            # a register in another one: "r5 (rdi)"
            words = re.sub(r"r\d+ \((\w+)\)", r"\1", line).split()
            entries[-1].rows.append((int(words[0], 16), dict(zip(columns, words[1:]))))
        else:
            if line.startswith("  DW_CFA_"):
                entries[-1].raw(address, line)
            match = re.match(r"^  DW_CFA_(?:advance|set)_loc.* (?:to )?([0-9a-f]{16})$", line)
            address = int(match[1], 16) if match else address
    if name:
        yield name, entries


def cfa_expression(text):
    ops = [op.strip() for op in text.split(";")]
    first = re.match(r"^DW_OP_breg\d+ \((\w+)\): (-?\d+)$", ops[0])
    plt = re.match(
        r"^DW_OP_breg7 \(rsp\): 8; DW_OP_breg16 \(rip\): 0; DW_OP_lit15; DW_OP_and; "
        r"DW_OP_lit(\d+); DW_OP_ge; DW_OP_lit3; DW_OP_shl; DW_OP_plus$",
        text,
    )
    if plt:
        return "plt" + plt[1]
    if first and ops[1:] == []:
        return "%s%+d" % (first[1], int(first[2]))
    if first and ops[1:] == ["DW_OP_deref"]:
        return "*(%s%+d)+0" % (first[1], int(first[2]))
    more = re.match(r"^DW_OP_plus_uconst: (\d+)$", ops[2]) if len(ops) == 3 else None
    if first and ops[1:2] == ["DW_OP_deref"] and more:
        return "*(%s%+d)%+d" % (first[1], int(first[2]), int(more[1]))
    return "unsupported"


def register_expression(text):
    match = re.match(r"^DW_OP_breg[67] \((rbp|rsp)\): (-?\d+)$", text)
    if not match or int(match[2]) % 8:
        return "u"
    return "%s%+d" % ("f" if match[1] == "rbp" else "s", int(match[2]))


def rule(cie, fde, address, columns):
    cfa, ra = columns["CFA"], columns.get("ra", "u")
    expression = lambda column: fde.expression(address, column) or cie.expression(0, column)
    if cfa == "exp":
        cfa = cfa_expression(expression("CFA"))
    where = {}
    for name in SAVED + ["ra"]:
        at = columns.get(name, "u")
        if at == "exp":
            at = register_expression(expression(name))
        elif at == "vexp" or at.startswith("v") or (at[0] == "c" and int(at[1:]) % 8):
            at = "lost" if name == "ra" else "u"
        if at not in ("u", "s"):
            where[name] = at
    if "S" in cie.augmentation:
        frame = {name: "s%+d" % offset for name, offset in FRAME.items()}
        return "signal" if cfa == "*(rsp+160)+0" and where == frame else "unsupported"
    if ra == "u":
        return "root"
    if cfa == "unsupported" or where["ra"] in ("u", "lost"):
        return "unsupported"
    if columns.get("rsp", "u") not in ("u", "v+0"):
        return "unsupported"
    return " ".join([cfa, "ra=" + where["ra"]] + [f"{n}={where[n]}" for n in SAVED if n in where])


def rows_of(entries):
    """Of one section: (address, rule), by the policy of cfi_section.h."""
    cies = {e.offset: e for e in entries if e.kind == "CIE"}
    fdes = [e for e in entries if e.kind == "FDE" and e.start and e.start < e.end]
    rows, covered = [], 0
    for fde in sorted(fdes, key=lambda e: e.start):
        if fde.end <= covered:
            continue
        if fde.start - covered >= PADDING:
            rows.append((covered, "none"))
        cie = cies[fde.cie]
        from_ = max(fde.start, covered)
        for address, columns in fde.rows or [(fde.start, cie.rows[0][1])]:
            if address < fde.end:
                rows.append((max(address, from_), rule(cie, fde, address, columns)))
        covered = fde.end
    rows.append((covered, "none"))
    return rows


def reduced(rows):
    out = []
    for address, text in rows:
        if out and out[-1][0] == address:
            out.pop()
        if (out and out[-1][1] == text) or (not out and text == "none"):
            continue
        out.append((address, text))
    return out


def reference(path):
    raw = {name: {e.offset: e for e in entries} for name, entries in sections(readelf("frames", path))}
    for name, entries in sections(readelf("frames-interp", path)):
        for entry in entries:
            entry.expressions = raw[name][entry.offset].expressions
        return reduced(rows_of(entries))
    return []


def ours(lines):
    rows = []
    for line in lines:
        address, text = line.rstrip("\n").split(" ", 1)
        text = " ".join(word for word in text.split() if not word.endswith("=u"))
        rows.append((int(address, 16), text))
    return reduced(rows)


def main():
    rows = reference(sys.argv[-1])
    if sys.argv[1] != "--compare":
        for address, text in rows:
            print("%x %s" % (address, text))
        return 0
    got = ours(sys.stdin)
    if got == rows:
        print("%d rows" % len(rows))
        return 0
    for row in sorted(set(got) - set(rows))[:20]:
        print("ours:    %x %s" % row)
    for row in sorted(set(rows) - set(got))[:20]:
        print("readelf: %x %s" % row)
    return 1


sys.exit(main())
