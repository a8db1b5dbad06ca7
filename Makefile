# SPDX-License-Identifier: BSD-2-Clause
#
# make            the tools, with what is installed          -> build/TOOL
# make static     fully static, stripped                     -> build/static/TOOL
# make check      installs what is missing, builds and runs every test
# make help       the other targets
#
# Everything that is built is under build/. V=1 shows the commands.

VERSION := 0.1.0

CC      ?= gcc
CLANG   ?= clang
AR      ?= ar
BPFTOOL ?= $(shell PATH="$$PATH:/usr/sbin:/sbin" command -v bpftool 2>/dev/null || echo bpftool)
ifeq ($(origin CC),default)
CC := gcc
endif

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/samplegate
INCDIR ?= $(PREFIX)/include

# These are the user's to change; what the code needs is in the ALL_ variables below.
CFLAGS    ?= -O2 -g
CPPFLAGS  ?= $(if $(filter -O0,$(CFLAGS)),,-D_FORTIFY_SOURCE=2)
HARDENING ?= -fstack-protector-strong
WARNINGS  ?= -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
BPF_CFLAGS ?= -O2 -g
LDFLAGS   ?=

B := build

INCLUDES     := -Iinclude -Ilib
ALL_CPPFLAGS := -D_GNU_SOURCE -DSAMPLEGATE_VERSION='"$(VERSION)"' $(INCLUDES)
ALL_CFLAGS    = -std=gnu11 $(WARNINGS) $(HARDENING) $(CPPFLAGS) $(CFLAGS)
LDLIBS       := -lbpf -ldw -lelf -lz -llzma -lcapstone -liberty

# v2: the oldest kernel that is served (5.10) must verify it, so no atomics that fetch.
ALL_BPF_CFLAGS = -target bpf -mcpu=v2 -D__TARGET_ARCH_x86 -Ivmlinux/x86 -Iinclude -Ibpf \
		 -Wall -Wextra -Wno-unused-parameter -Werror $(BPF_CFLAGS)

# _FORTIFY_SOURCE and the sanitizers hide findings from each other.
SAN        := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# It does not model fences, and says so; what they order is atomic here.
TSAN_FLAGS  = -std=gnu11 $(WARNINGS) -O1 -g -fsanitize=thread -fno-omit-frame-pointer \
	      $(if $(findstring clang,$(CC)),,-Wno-tsan)
ASAN_FLAGS  = -std=gnu11 $(WARNINGS) -O1 -g $(SAN)
FUZZ_FLAGS  = -std=gnu11 $(WARNINGS) -O1 -g $(SAN)

STATIC_FLAGS   = $(ALL_CFLAGS) -ffunction-sections -fdata-sections
STATIC_LDFLAGS = -static -Wl,--gc-sections -s
STATIC_LIMIT  := 4194304

# Workloads are fixtures: one compiler and fixed flags, so that their frames do not depend on CC.
# A file adds its own with a comment near its top: /* CFLAGS: ... */ and /* LDLIBS: ... */
WL_CC     ?= gcc
WL_CXX    ?= g++
WL_FLAGS  := -O1 -g -fno-omit-frame-pointer -fno-inline -Wall -Werror -D_GNU_SOURCE -pthread
WL_LIBS   := -L$(B)/workloads -Wl,-rpath,'$$ORIGIN'

# This one takes every other architecture out of capstone, and works only where the linker sees
# all of capstone's code.
STATIC_ONLY := lib/base/capstone_x86_only.c

LIB_SRC  := $(filter-out $(STATIC_ONLY),$(shell ls lib/*/*.c | LC_ALL=C sort -t/ -k3))
TOOLS    := $(patsubst tools/%.c,%,$(sort $(wildcard tools/*.c)))
BPF      := $(patsubst bpf/%.bpf.c,%,$(filter-out %_api.bpf.c,$(sort $(wildcard bpf/*.bpf.c))))
API_H     = $(patsubst bpf/%.bpf.c,$(B)/bpf/%.h,$(wildcard bpf/*_api.bpf.c))
UNIT     := $(patsubst tests/unit/%.c,%,$(sort $(wildcard tests/unit/test_*.c)))
# The modules that a test with threads needs stand in a comment near its top: /* TSAN: flight ring */
TSAN     := $(notdir $(basename $(shell grep -l '^/\* TSAN: ' tests/unit/test_*.c)))
TSAN_LIB := $(sort $(shell sed -n 's,^/\* TSAN: \(.*\) \*/$$,\1,p' tests/unit/test_*.c))
FUZZ     := $(patsubst tests/fuzz/%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
HELPER_LIB := $(patsubst tests/helpers/%.c,%,$(sort $(wildcard tests/helpers/lib*.c)))
HELPERS  := $(filter-out $(HELPER_LIB),$(patsubst tests/helpers/%.c,%,$(sort $(wildcard tests/helpers/*.c))))
BENCHES  := $(patsubst bench/%.c,%,$(filter-out %.bpf.c,$(sort $(wildcard bench/*.c))))
EXAMPLES := $(patsubst docs/examples/%.bpf.c,%,$(sort $(wildcard docs/examples/*.bpf.c)))
LIVES    := $(patsubst tests/live/%.c,%,$(filter-out %.bpf.c,$(sort $(wildcard tests/live/*.c))))
WL_SRC   := $(sort $(wildcard tests/workloads/*.c tests/workloads/*.cc tests/workloads/*.S))
WL_LIB   := $(filter tests/workloads/lib%.c,$(WL_SRC))
WL_PROG  := $(filter-out $(WL_LIB),$(WL_SRC))

LIB_OBJ    := $(LIB_SRC:%.c=$(B)/%.o)
ASAN_OBJ   := $(LIB_SRC:%.c=$(B)/asan/%.o)
TSAN_OBJ   := $(foreach m,$(TSAN_LIB),$(patsubst %.c,$(B)/tsan/%.o,$(wildcard lib/*/$m.c)))
FUZZ_OBJ   := $(LIB_SRC:%.c=$(B)/fuzz/%.o)
STATIC_OBJ := $(LIB_SRC:%.c=$(B)/static/%.o)
STATIC_TOP := $(patsubst %.c,$(B)/static/%.o,$(wildcard $(STATIC_ONLY)))

TOOL_BIN   := $(TOOLS:%=$(B)/%)
STATIC_BIN := $(TOOLS:%=$(B)/static/%)
UNIT_BIN   := $(UNIT:%=$(B)/tests/unit/%)
ASAN_BIN   := $(UNIT:%=$(B)/asan/tests/unit/%)
TSAN_BIN   := $(TSAN:%=$(B)/tsan/tests/unit/%)
FUZZ_BIN   := $(FUZZ:%=$(B)/fuzz/%)
HELPER_BIN := $(HELPERS:%=$(B)/helpers/%)
HELPER_LIB_BIN := $(HELPER_LIB:%=$(B)/helpers/%.so)
BENCH_BIN  := $(BENCHES:%=$(B)/bench/%)
LIVE_BIN   := $(LIVES:%=$(B)/live/%)
VM_BIN     := $(patsubst tests/vm/%.c,$(B)/vm/%.so,$(sort $(wildcard tests/vm/*.c)))
WL_LIB_BIN := $(WL_LIB:tests/workloads/%.c=$(B)/workloads/%.so)
WL_BIN     := $(addprefix $(B)/workloads/,$(basename $(notdir $(WL_PROG))))

ifeq ($(V),1)
Q   :=
say  = @:
else
Q   := @
say  = @printf '  %-8s %s\n' '$(1)' '$(2)'
endif

# As many jobs as CPUs for the sub-make, unless the user has said how many.
JOBS = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2))

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

.PHONY: all lib bpf skeletons unit asan tsan fuzzers fuzz workloads helpers benches lives vm static \
	check-build check check-wide check-vm verifier-budget check-mutations lint demo bench setup install clean \
	help FORCE

all: $(TOOL_BIN) $(B)/libsamplegate.a skeletons
lib: $(B)/libsamplegate.a
bpf: $(BPF:%=$(B)/bpf/%.bpf.o)
skeletons: $(BPF:%=$(B)/bpf/%.skel.h)
unit: $(UNIT_BIN)
asan: $(ASAN_BIN)
tsan: $(TSAN_BIN)
fuzzers: $(FUZZ_BIN)
workloads: $(WL_LIB_BIN) $(WL_BIN)
helpers: $(HELPER_BIN) $(HELPER_LIB_BIN)
benches: $(BENCH_BIN)
lives: $(LIVE_BIN)
vm: $(VM_BIN)
check-build: all unit asan tsan fuzzers workloads helpers benches lives vm examples static

help:
	@echo 'all       the tools (default)        static   static, stripped, at most $(STATIC_LIMIT) bytes'
	@echo 'check     every test                 lint     the checks of the source alone'
	@echo 'check-vm  on other kernels, in QEMU   verifier-budget  measure tests/vm/verifier-budget.tsv'
	@echo 'check-wide       what is too long for each change: PARTS="faults sessions fuzz vm mutations"'
	@echo 'check-mutations  breaks a copy of the program on purpose: is it noticed? ONLY=pattern'
	@echo 'fuzz      TARGET=ring TIME=600: one fuzzer (all of them without TARGET) for so many seconds'
	@echo 'demo      gatedprof on sqlite3       bench    side by side with perf and bpftrace'
	@echo 'setup     apt-get what is missing    install  DESTDIR= PREFIX=$(PREFIX)'
	@echo 'clean     remove build/              lib bpf unit asan tsan fuzzers workloads helpers: parts of the build'
	@echo 'variables: CC CFLAGS CPPFLAGS LDFLAGS BPF_CFLAGS V=1 TESTS=pattern BENCH=pattern BENCH_REPS=5'
	@echo '           KERNELS="6.1 7.3" KERNEL_DIR= VM_CACHE= VM_OPTIONAL=1 (check-vm)'

# --- stamps: a file that changes only when its content does, so that changed flags rebuild (the +
# runs them under -n and -q too, which would otherwise take them for changed) ---

quote = '$(subst ','\'',$(1))'
stamp = +@mkdir -p $(@D); printf '%s\n' $(call quote,$(1)) | cmp -s - $@ || \
	printf '%s\n' $(call quote,$(1)) >$@

$(B)/.flags: FORCE
	$(call stamp,$(CC) $(AR) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) $(LDLIBS))
$(B)/.flags-bpf: FORCE
	$(call stamp,$(CLANG) $(BPFTOOL) $(ALL_BPF_CFLAGS))
$(B)/.flags-asan: FORCE
	$(call stamp,$(CC) $(ALL_CPPFLAGS) $(ASAN_FLAGS) $(LDLIBS))
$(B)/.flags-tsan: FORCE
	$(call stamp,$(CC) $(ALL_CPPFLAGS) $(TSAN_FLAGS) $(LDLIBS))
$(B)/.flags-fuzz: FORCE
	$(call stamp,$(CLANG) $(ALL_CPPFLAGS) $(FUZZ_FLAGS) $(LDLIBS))
$(B)/.flags-wl: FORCE
	$(call stamp,$(WL_CC) $(WL_CXX) $(WL_FLAGS) $(WL_LIBS))
# A source that was removed must leave the archive too.
$(B)/.lib-list: FORCE
	$(call stamp,$(LIB_OBJ) $(STATIC_TOP))

# Names the Debian package when a tool or header is missing, once a tree.
$(B)/.deps-ok: tests/packages.txt tests/setup.sh
	@mkdir -p $(@D)
	@CC=$(call quote,$(CC)) CLANG=$(call quote,$(CLANG)) BPFTOOL=$(call quote,$(BPFTOOL)) \
		bash tests/setup.sh --probe build
	@touch $@

# --- kernel side ---

$(B)/bpf/%.full.o: bpf/%.bpf.c $(B)/.flags-bpf | $(B)/.deps-ok
	$(call say,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(ALL_BPF_CFLAGS) -MMD -MP -c $< -o $@

# The linker keeps BTF and leaves DWARF behind.
$(B)/bpf/%.bpf.o: $(B)/bpf/%.full.o
	$(Q)$(BPFTOOL) gen object $@ $<

$(B)/bpf/%.skel.h: $(B)/bpf/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $(subst -,_,$*)_bpf >$@

# What a tool carries: the object, packed. The skeletons are for those who read the code.
$(B)/bpf/%_packed.h: $(B)/bpf/%.bpf.o
	$(Q){ echo 'static const unsigned char $*_packed[] = {'; \
		gzip -9 -n <$< | od -An -v -tx1 | sed 's/ \(..\)/0x\1,/g'; echo '};'; } >$@

# TOOL_api.bpf.c is linked to users' objects when they are loaded: its bytes are all that is needed.
$(B)/bpf/%_api.h: $(B)/bpf/%_api.bpf.o
	$(Q){ echo 'static const unsigned char $*_api[] = {'; \
		od -An -v -tx1 $< | sed 's/ \(..\)/0x\1,/g'; echo '};'; } >$@

# --- library and tools ---

$(B)/lib/%.o: lib/%.c $(B)/.flags | $(B)/.deps-ok
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(B)/libsamplegate.a: $(LIB_OBJ) $(B)/.lib-list
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(LIB_OBJ)

# These headers are generated code: -isystem keeps our warnings to our own.
$(B)/tools/%.o: tools/%.c $(B)/bpf/%_packed.h $(API_H) $(B)/.flags | $(B)/.deps-ok
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) -isystem $(B)/bpf $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(TOOL_BIN): $(B)/%: $(B)/tools/%.o $(B)/libsamplegate.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# --- static ---

$(B)/static/lib/%.o: lib/%.c $(B)/.flags | $(B)/.deps-ok
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(STATIC_FLAGS) -MMD -MP -c $< -o $@

$(B)/static/tools/%.o: tools/%.c $(B)/bpf/%_packed.h $(API_H) $(B)/.flags | $(B)/.deps-ok
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) -isystem $(B)/bpf $(STATIC_FLAGS) -MMD -MP -c $< -o $@

$(STATIC_BIN): $(B)/static/%: $(B)/static/tools/%.o $(STATIC_OBJ) $(STATIC_TOP) $(B)/.lib-list
	$(call say,LINK,$@)
	$(Q)$(CC) $(STATIC_FLAGS) $(LDFLAGS) $(STATIC_LDFLAGS) -o $@ $(filter %.o,$^) $(LDLIBS)

static: $(STATIC_BIN)
	@for f in $(STATIC_BIN); do \
		size=$$(stat -c %s $$f); \
		echo "$$f: $$size bytes (limit $(STATIC_LIMIT))"; \
		[ $$size -le $(STATIC_LIMIT) ] || exit 1; \
	done

# --- unit tests, twice ---

$(B)/tests/unit/%.o: tests/unit/%.c $(B)/.flags | $(B)/.deps-ok
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(UNIT_BIN): %: %.o $(B)/libsamplegate.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS) -pthread

$(B)/asan/%.o: %.c $(B)/.flags-asan | $(B)/.deps-ok
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ASAN_FLAGS) -MMD -MP -c $< -o $@

$(B)/asan/libsamplegate.a: $(ASAN_OBJ) $(B)/.lib-list
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(ASAN_OBJ)

$(ASAN_BIN): %: %.o $(B)/asan/libsamplegate.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ASAN_FLAGS) -o $@ $^ -lcmocka $(LDLIBS) -pthread

# --- unit tests with threads, with ThreadSanitizer: only what they need of the library ---

$(B)/tsan/%.o: %.c $(B)/.flags-tsan | $(B)/.deps-ok
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(TSAN_FLAGS) -MMD -MP -c $< -o $@

$(TSAN_BIN): %: %.o $(TSAN_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) $(TSAN_FLAGS) -o $@ $^ -lcmocka $(LDLIBS) -pthread

# --- fuzzers: clang's libFuzzer, whatever CC is ---

$(B)/fuzz/lib/%.o: lib/%.c $(B)/.flags-fuzz | $(B)/.deps-ok
	$(call say,FUZZ,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(ALL_CPPFLAGS) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@

$(B)/fuzz/libsamplegate.a: $(FUZZ_OBJ) $(B)/.lib-list
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(FUZZ_OBJ)

$(B)/fuzz/tests/%.o: tests/fuzz/%.c $(B)/.flags-fuzz | $(B)/.deps-ok
	$(call say,FUZZ,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(ALL_CPPFLAGS) $(FUZZ_FLAGS) -Wno-missing-prototypes \
		-fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@

$(FUZZ_BIN): $(B)/fuzz/%: $(B)/fuzz/tests/%.o $(B)/fuzz/libsamplegate.a
	$(call say,LINK,$@)
	$(Q)$(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

# --- workloads: NAME.c NAME.cc NAME.S are programs, libNAME.c is a shared library beside them ---

own = $(shell sed -n '1,12s,^/\* $(1): \(.*\) \*/$$,\1,p' $<)

$(WL_LIB_BIN): $(B)/workloads/%.so: tests/workloads/%.c $(B)/.flags-wl | $(B)/.deps-ok
	$(call say,WORKLOAD,$@)
	@mkdir -p $(@D)
	$(Q)$(WL_CC) $(WL_FLAGS) $(call own,CFLAGS) -MMD -MP -MF $@.d -fPIC -shared -o $@ $< \
		$(WL_LIBS) $(call own,LDLIBS)

WL_C   := $(patsubst tests/workloads/%.c,$(B)/workloads/%,$(filter %.c,$(WL_PROG)))
WL_CXX_BIN := $(patsubst tests/workloads/%.cc,$(B)/workloads/%,$(filter %.cc,$(WL_PROG)))
WL_ASM := $(patsubst tests/workloads/%.S,$(B)/workloads/%,$(filter %.S,$(WL_PROG)))

$(WL_C): $(B)/workloads/%: tests/workloads/%.c $(B)/.flags-wl $(WL_LIB_BIN) | $(B)/.deps-ok
	$(call say,WORKLOAD,$@)
	@mkdir -p $(@D)
	$(Q)$(WL_CC) $(WL_FLAGS) $(call own,CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(WL_LIBS) $(call own,LDLIBS)

$(WL_CXX_BIN): $(B)/workloads/%: tests/workloads/%.cc $(B)/.flags-wl $(WL_LIB_BIN) | $(B)/.deps-ok
	$(call say,WORKLOAD,$@)
	@mkdir -p $(@D)
	$(Q)$(WL_CXX) $(WL_FLAGS) $(call own,CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(WL_LIBS) $(call own,LDLIBS)

$(WL_ASM): $(B)/workloads/%: tests/workloads/%.S $(B)/.flags-wl $(WL_LIB_BIN) | $(B)/.deps-ok
	$(call say,WORKLOAD,$@)
	@mkdir -p $(@D)
	$(Q)$(WL_CC) $(WL_FLAGS) $(call own,CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(WL_LIBS) $(call own,LDLIBS)

# --- helpers: programs of the live tests, on the library; libNAME.c is preloaded into a tool ---

$(HELPER_BIN): $(B)/helpers/%: tests/helpers/%.c $(B)/libsamplegate.a $(B)/.flags
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(B)/libsamplegate.a \
		$(LDLIBS)

$(HELPER_LIB_BIN): $(B)/helpers/%.so: tests/helpers/%.c $(B)/.flags
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -MF $@.d -fPIC -shared -o $@ $<

# --- bench: NAME.c is a program, NAME.bpf.c gives it NAME.skel.h, NAME.sh is what `make bench` runs ---

$(B)/bench/%.full.o: bench/%.bpf.c $(B)/.flags-bpf | $(B)/.deps-ok
	$(call say,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(ALL_BPF_CFLAGS) -MMD -MP -c $< -o $@

$(B)/bench/%.bpf.o: $(B)/bench/%.full.o
	$(Q)$(BPFTOOL) gen object $@ $<

$(B)/bench/%.skel.h: $(B)/bench/%.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $< name $(subst -,_,$*)_bpf >$@

BENCH_SKEL := $(patsubst bench/%.bpf.c,$(B)/bench/%.skel.h,$(wildcard bench/*.bpf.c))

$(BENCH_BIN): $(B)/bench/%: bench/%.c $(BENCH_SKEL) $(B)/libsamplegate.a $(B)/.flags
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) -isystem $(B)/bench $(ALL_CFLAGS) -MMD -MP -MF $@.d -o $@ $< \
		$(B)/libsamplegate.a $(LDLIBS)

# --- tests/live: as bench, for programs that live tests call ---

$(B)/live/%.full.o: tests/live/%.bpf.c $(B)/.flags-bpf | $(B)/.deps-ok
	$(call say,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(ALL_BPF_CFLAGS) -MMD -MP -c $< -o $@

$(B)/live/%.bpf.o: $(B)/live/%.full.o
	$(Q)$(BPFTOOL) gen object $@ $<

$(B)/live/%.skel.h: $(B)/live/%.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $< name $(subst -,_,$*)_bpf >$@

LIVE_SKEL := $(patsubst tests/live/%.bpf.c,$(B)/live/%.skel.h,$(wildcard tests/live/*.bpf.c))

$(LIVE_BIN): $(B)/live/%: tests/live/%.c $(LIVE_SKEL) $(B)/libsamplegate.a $(B)/.flags
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) -Itests/unit -isystem $(B)/live $(ALL_CFLAGS) -MMD -MP -MF $@.d -o $@ $< \
		$(B)/libsamplegate.a $(LDLIBS)

# --- tests/vm: NAME.c is a library for LD_PRELOAD ---

$(VM_BIN): $(B)/vm/%.so: tests/vm/%.c $(B)/.flags | $(B)/.deps-ok
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -MF $@.d -fPIC -shared -o $@ $<

# --- docs/examples: BPF objects as a user builds them, with nothing of ours but the one header ---

.PHONY: examples
examples: $(EXAMPLES:%=$(B)/examples/%.bpf.o)

$(B)/examples/samplegate.bpf.h: include/samplegate.bpf.h
	@mkdir -p $(@D)
	$(Q)cp $< $@

$(B)/examples/%.bpf.o: docs/examples/%.bpf.c $(B)/examples/samplegate.bpf.h $(B)/.flags-bpf | $(B)/.deps-ok
	$(call say,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) -target bpf -mcpu=v2 -O2 -g -D__TARGET_ARCH_x86 -Ivmlinux/x86 -I$(B)/examples \
		-Wall -Wextra -Werror -MMD -MP -c $< -o $@

# --- targets that run something; they install first, so the build is a make of its own ---

setup:
	@bash tests/setup.sh all

# Recipes with $(MAKE) itself in them are run by 'make -n' too: scripts get it by another name.
make_program := $(MAKE)

check: GROUPS ?= unit asan tsan fuzz lint cli live
check:
	@bash tests/setup.sh build test
	@$(MAKE) $(JOBS) --no-print-directory check-build
	@MAKE='$(make_program)' TESTS=$(call quote,$(TESTS)) bash tests/run $(GROUPS)

# What takes too long for each change: more of what can fail, more seeds, all mutations.
check-wide:
	@bash tests/setup.sh build test vm
	@$(MAKE) $(JOBS) --no-print-directory check-build
	@MAKE='$(make_program)' bash tests/wide

# Breaks a copy of the tree on purpose, again and again: not a part of `make check`.
check-mutations:
	@bash tests/setup.sh build test
	@$(MAKE) $(JOBS) --no-print-directory all unit asan tsan workloads helpers lives
	@MAKE='$(make_program)' ONLY=$(call quote,$(ONLY)) bash tests/mutations/run

# For longer than in `make check`; what is found stays in build/fuzz.
fuzz: TIME ?= 600
fuzz:
	@bash tests/setup.sh build test
	@$(MAKE) $(JOBS) --no-print-directory $(if $(TARGET),$(TARGET:%=$(B)/fuzz/fuzz_%),fuzzers)
	@bash tests/fuzz/run $(TIME) $(TARGET)

# What runs in the guests is built here: there it would take an hour.
check-vm:
	@bash tests/setup.sh build test vm
	@$(MAKE) $(JOBS) --no-print-directory check-build
	@bash tests/vm/run.sh

verifier-budget:
	@bash tests/setup.sh build test vm
	@$(MAKE) $(JOBS) --no-print-directory all workloads vm examples
	@bash tests/vm/run.sh budget

lint: all
	@MAKE='$(make_program)' TESTS=$(call quote,$(TESTS)) bash tests/run lint

demo:
	@bash tests/setup.sh build demo
	@$(MAKE) $(JOBS) --no-print-directory all
	@bash tests/demo.sh

bench:
	@bash tests/setup.sh build test bench
	@$(MAKE) $(JOBS) --no-print-directory all static workloads benches
	@BENCH=$(call quote,$(BENCH)) BENCH_REPS=$(call quote,$(BENCH_REPS)) bash bench/run

install: all
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(MANDIR)/man8 $(DESTDIR)$(DOCDIR)/LICENSES \
		$(DESTDIR)$(DOCDIR)/examples $(DESTDIR)$(INCDIR)/samplegate
	$(if $(TOOL_BIN),install -m 755 $(TOOL_BIN) $(DESTDIR)$(BINDIR))
	$(if $(wildcard man/*.8),install -m 644 $(wildcard man/*.8) $(DESTDIR)$(MANDIR)/man8)
	install -m 644 $(wildcard README.md CHANGELOG.md LICENSE docs/*.md docs/*.svg) $(DESTDIR)$(DOCDIR)
	install -m 644 $(wildcard LICENSES/*) $(DESTDIR)$(DOCDIR)/LICENSES
	install -m 644 include/samplegate.bpf.h $(DESTDIR)$(INCDIR)/samplegate
	install -m 644 $(wildcard docs/examples/*) $(DESTDIR)$(DOCDIR)/examples

clean:
	rm -rf $(B)

-include $(shell find $(B) -name '*.d' 2>/dev/null)
