# SPDX-License-Identifier: BSD-2-Clause
"""helpers.py OBJECT...   which helpers the programs of BPF objects can call on Linux 5.10

Prints a line for each helper or kernel function that 5.10 lacks and that a program can reach which
is loaded there; exits 1 if there is any. Programs that are loaded on newer kernels only are known by
the ends of their names. Within a program, what stands behind bpf_core_enum_value_exists() of a
helper's number is followed as 5.10 would: its verifier takes dead code out before it looks at it.
"""
import struct
import sys

# Only where plan and attach have found the feature: see lib/plan/host.h.
NEWER = ("_vma", "_cast")

# Behind a constant that user space sets only where the kernel has it (ocfg.use_cast): function and
# what it calls. The extern is weak, so that libbpf takes the call for one that is not reached.
BEHIND_CONSTANTS = {("begin_state", "bpf_cast_to_kern_ctx")}

# What programs for tracing may call in Linux 5.10: bpf_tracing_func_proto() and what kprobes, trace
# points and perf events add (kernel/trace/bpf_trace.c), by the numbers of include/uapi/linux/bpf.h.
HELPERS_5_10 = {
    1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 15, 16, 22, 25, 27, 35, 36, 37, 42, 45, 55, 56, 67, 80, 87, 88,
    89, 109, 112, 113, 114, 115, 117, 118, 119, 120, 125, 130, 131, 132, 133, 134, 141, 148, 149,
    153, 154,
}
LAST_5_10 = 155  # BPF_FUNC_redirect_peer

ENUMVAL_EXISTS = 10
CALL, EXIT = 0x85, 0x95


class Object:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.bytes = f.read()
        if self.bytes[:5] != b"\x7fELF\x02":
            raise ValueError(path + ": no 64-bit ELF file")
        at, n, names = (struct.unpack_from("<Q", self.bytes, 40)[0],
                        *struct.unpack_from("<HH", self.bytes, 60))
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.bytes, at + 64 * i)
                         for i in range(n)]
        self.names = [self.string(names, s[0]) for s in self.sections]
        self.read_symbols()
        self.read_relocations()
        self.read_core()

    def data(self, i):
        s = self.sections[i]
        return self.bytes[s[4]:s[4] + s[5]]

    def string(self, section, at):
        s = self.sections[section]
        begin = s[4] + at
        return self.bytes[begin:self.bytes.index(b"\0", begin)].decode()

    def read_symbols(self):
        self.symbols = []
        for i, s in enumerate(self.sections):
            if s[1] != 2:
                continue
            for at in range(0, s[5], 24):
                name, info, _, shndx, value, size = struct.unpack_from("<IBBHQQ", self.bytes,
                                                                       s[4] + at)
                self.symbols.append((self.string(s[6], name), info & 15, shndx, value, size))
        # (section, first instruction): name, one behind the last
        self.functions = {(shndx, value // 8): (name, (value + size) // 8)
                          for name, kind, shndx, value, size in self.symbols if kind == 2}

    def read_relocations(self):
        self.relocations = {}
        for s in self.sections:
            if s[1] != 9:
                continue
            for at in range(0, s[5], 16):
                offset, info = struct.unpack_from("<QQ", self.bytes, s[4] + at)
                self.relocations[s[7], offset // 8] = self.symbols[info >> 32]

    def read_core(self):
        """(section, instruction): the value of an enum_value_exists(), or None for the others"""
        self.core = {}
        if ".BTF.ext" not in self.names:
            return
        btf, ext = self.names.index(".BTF"), self.names.index(".BTF.ext")
        types, strings = self.btf_types(self.data(btf))
        raw = self.data(ext)
        header = struct.unpack_from("<I", raw, 4)[0]
        offset, length = struct.unpack_from("<II", raw, 24)
        at, end = header + offset + 4, header + offset + length
        if not length:
            return
        record = struct.unpack_from("<I", raw, at - 4)[0]
        while at < end:
            name, n = struct.unpack_from("<II", raw, at)
            section = self.names.index(text(strings, name))
            at += 8
            for _ in range(n):
                insn, type_id, access, kind = struct.unpack_from("<IIII", raw, at)
                at += record
                value = None
                if kind == ENUMVAL_EXISTS and types[type_id][0] == "bpf_func_id":
                    value = int(types[type_id][1][int(text(strings, access))] <= LAST_5_10)
                self.core[section, insn // 8] = value

    @staticmethod
    def btf_types(raw):
        """Of each type its name, and an enum's values."""
        header, type_off, type_len, str_off, str_len = struct.unpack_from("<IIIII", raw, 4)
        strings = raw[header + str_off:header + str_off + str_len]
        types, at, end = [("void", [])], header + type_off, header + type_off + type_len
        tail = {1: 4, 3: 12, 14: 4, 17: 4}
        per_member = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}
        while at < end:
            name, info, _ = struct.unpack_from("<III", raw, at)
            kind, n = info >> 24 & 31, info & 0xffff
            at += 12
            values = [struct.unpack_from("<Ii", raw, at + 8 * i)[1] for i in range(n)] \
                if kind == 6 else []
            types.append((text(strings, name), values))
            at += tail.get(kind, 0) + per_member.get(kind, 0) * n
        return types, strings

    def insn(self, section, i):
        code, regs, off, imm = struct.unpack_from("<BBhi", self.bytes,
                                                  self.sections[section][4] + 8 * i)
        return code, regs & 15, regs >> 4, off, imm


def text(strings, at):
    return strings[at:strings.index(b"\0", at)].decode()


def step(o, section, i, known):
    """Follows an instruction that is no jump and no call; known: constants in registers and slots."""
    code, dst, src, off, imm = o.insn(section, i)
    kind, wide = code & 7, code & 0x18 == 0x18
    if kind in (4, 7):
        known.pop(dst, None)
        if code & 0xf0 == 0xb0:
            if code & 8:
                value = known.get(src)
            else:
                value = o.core.get((section, i), imm)
            if value is not None:
                known[dst] = value
    elif kind in (0, 1):
        known.pop(dst, None)
        if code == 0x18 and not src:
            value = o.core.get((section, i), imm)
            if value is not None:
                known[dst] = value
        elif kind == 1 and src == 10 and wide and ("slot", off) in known:
            known[dst] = known["slot", off]
    elif kind in (2, 3) and dst == 10:
        for near in range(off - 7, off + 8):
            known.pop(("slot", near), None)
        value = known.get(src) if kind == 3 else imm
        if wide and value is not None:
            known["slot", off] = value


def branches(o, section, i, known):
    """Where a conditional jump can go."""
    code, dst, src, off, imm = o.insn(section, i)
    both = {i + 1, i + 1 + off}
    a, b = known.get(dst), known.get(src) if code & 8 else imm
    if a is None or b is None or code & 0xf0 not in (0x10, 0x50):
        return both
    mask = (1 << 32) - 1
    taken = (a & mask == b & mask) == (code & 0xf0 == 0x10)
    return {i + 1 + off if taken else i + 1}


def reach(o, start):
    """The helpers and kernel functions that a function can call, and its functions."""
    section = start[0]
    seen, todo = {}, [(start[1], {})]
    helpers, functions = set(), set()
    while todo:
        i, known = todo.pop()
        if i in seen:
            joined = {k: v for k, v in seen[i].items() if known.get(k, None) == v}
            if joined == seen[i]:
                continue
            known = joined
        seen[i] = dict(known)
        known = dict(known)
        code, _, src, off, imm = o.insn(section, i)
        symbol = o.relocations.get((section, i))
        if code == EXIT:
            continue
        if code == CALL:
            for reg in range(6):
                known.pop(reg, None)
            if src == 0 and not symbol:
                helpers.add(imm)
            elif symbol and symbol[2] == 0:
                helpers.add(symbol[0])
            elif symbol:
                functions.add((symbol[2], symbol[3] // 8 + imm + 1))
            else:
                functions.add((section, i + 1 + imm))
            next_ = {i + 1}
        elif code & 7 in (5, 6):
            next_ = {i + 1 + off} if code == 5 else branches(o, section, i, known)
        else:
            # A callback's address is on the way to a helper.
            if code == 0x18 and symbol and symbol[2] and o.sections[symbol[2]][2] & 4:
                functions.add((symbol[2], (symbol[3] + imm) // 8))
            step(o, section, i, known)
            next_ = {i + (2 if code == 0x18 else 1)}
        todo.extend((n, known) for n in next_)
    return helpers, functions


def check(path):
    o = Object(path)
    reached, bad, checked = {}, 0, 0
    # An object without programs is linked to those of others.
    library = all(o.names[section] == ".text" for section, _ in o.functions)
    for start, (name, _) in sorted(o.functions.items()):
        if (o.names[start[0]] == ".text" and not library) or name.endswith(NEWER):
            continue
        checked += 1
        todo, seen = [start], set()
        while todo:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            if at not in reached:
                reached[at] = reach(o, at)
            helpers, functions = reached[at]
            todo.extend(functions)
            for h in sorted(helpers - HELPERS_5_10, key=str):
                if (o.functions[at][0], h) in BEHIND_CONSTANTS:
                    continue
                print(f"{path}: {name} calls {'helper ' if isinstance(h, int) else ''}{h}"
                      f" in {o.functions[at][0]}, which Linux 5.10 lacks")
                bad += 1
    if not checked:
        print(path + ": no function")
    return bad or not checked


if __name__ == "__main__":
    sys.exit(any([check(path) for path in sys.argv[1:]]) or len(sys.argv) < 2)
