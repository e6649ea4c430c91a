# SPDX-License-Identifier: GPL-2.0-only
#
# Everything is built under $(O); the source tree stays as it was checked out.
# The parts have makefiles of their own, called with O= and, in the environment,
# CFLAGS and LDFLAGS: so "the library under sanitizers" is nothing but another O
# with other flags.

export CAPKM_VERSION := $(shell cat VERSION)

O ?= build
override O := $(abspath $(O))

CFLAGS ?= -O2 -g -Wall -Wextra
prefix ?= /usr/local
libdir ?= $(prefix)/lib
includedir ?= $(prefix)/include

SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
TSAN := -fsanitize=thread -fno-omit-frame-pointer
werror := $(if $(WERROR),-Werror)
dirs = DESTDIR='$(DESTDIR)' prefix='$(prefix)' libdir='$(libdir)' includedir='$(includedir)'

q := $(if $(V),,@)
MAKEFLAGS += $(if $(V),,--no-print-directory)

# What is given to this make is not for its sub-makes: the kernel's has an O= of
# its own, and CFLAGS differ from call to call.
MAKEOVERRIDES :=

# The kernel to build for: KDIR= or the running one or, where that has no
# headers, the newest one that has.
ifeq ($(KDIR),)
KDIR := /lib/modules/$(shell uname -r)/build
ifeq ($(wildcard $(KDIR)/Makefile),)
KDIR := $(patsubst %/Makefile,%,$(shell ls /lib/modules/*/build/Makefile 2>/dev/null | sort -V | tail -n 1))
knote := (the running kernel $(shell uname -r) has no headers here)
endif
endif
KREL = $(shell sed -n 's/.*UTS_RELEASE "\(.*\)".*/\1/p' $(KDIR)/include/generated/utsrelease.h)
# GCOV=1: a module that counts which of its lines run, for a kernel that keeps the counts.
kmod = $(O)/kmod/$(KREL)$(if $(GCOV),-gcov)
kbuild = +$(q)$(MAKE) -C $(KDIR) M=$(kmod) $(foreach v,W C V,$(if $($(v)),$(v)=$($(v)))) \
	$(if $(GCOV),GCOV_PROFILE=y UBSAN_SANITIZE=n)

.PHONY: all help dkms-install modules kmod-links kmod-dirs lib tools selftests cuda-selftests asan tsan m32 example $(O)/example/transformer observe-example cuda-example bench cuda-bench $(O)/bench/capkm-bench fuzz-targets fuzz check check-matrix lint coverage demo vm install modules_install clean

all: modules lib tools selftests cuda-selftests asan tsan m32 $(O)/example/transformer observe-example cuda-example $(O)/bench/capkm-bench cuda-bench

help:
	@echo 'make              all of the next eight, the examples, and capkm-bench for both'
	@echo 'make modules      capkm.ko, for the running kernel or for KDIR=/lib/modules/.../build'
	@echo 'make lib          libcapkm, shared and static'
	@echo 'make tools        capadm'
	@echo 'make selftests    the test programs, static, for the virtual machine'
	@echo 'make cuda-selftests   those of the bridge to CUDA, and a stand-in for its driver'
	@echo 'make asan         library and test programs under ASan and UBSan'
	@echo 'make tsan         test programs with threads, and the library, under TSan'
	@echo 'make m32          test programs of 32 bits, for the 64-bit kernel'
	@echo "make example      a small transformer on the library's executor: launched, captured,"
	@echo "                  replayed, measured; ARGS='--layers 8', ARGS=--help"
	@echo 'make observe-example   O/example/observe-generate: a small language model, observed by a'
	@echo '                  plan under a budget; tools/example/observe/plan.json, --help'
	@echo 'make cuda-example   cuda-graph, cuda-mlp and cuda-observe in O/example, on the bridge to'
	@echo '                  CUDA'
	@echo "make bench        what it costs on this machine, against an ioctl that does nothing, and"
	@echo "                  which goals hold; ARGS='--only scopes', ARGS=--help"
	@echo 'make cuda-bench   O/bench/capkm-bench-cuda: what it costs beside the CUDA driver, on a machine'
	@echo '                  with a GPU, where it needs nothing but that and libc'
	@echo 'make check        every test there is, the module in a virtual machine included;'
	@echo '                  installs the Debian packages that it lacks'
	@echo 'make lint         static checks: sparse, checkpatch, coccinelle, clang, cppcheck, ...;'
	@echo "                  STAGES='sparse cppcheck'; make check runs those that are quick"
	@echo 'make coverage     every test in User-mode Linux, and which lines of the module have not run'
	@echo 'make check-matrix   the module built and tested on the kernels that Debian has for it, as'
	@echo "                  root: an hour; KERNELS='6.12 7.x', ARGS=--help"
	@echo 'make fuzz         what takes bytes from others, and the oracles, under libFuzzer;'
	@echo "                  SECONDS=3600 for each, TARGETS='oracle abi', ARGS=-help=1 for more"
	@echo 'make demo         the demonstration in a virtual machine; FILE=path for its input'
	@echo "make vm           a shell beside the module in a virtual machine, or CMD='...'"
	@echo 'make install      library, headers, capadm, capkm-bench: DESTDIR= prefix= libdir= includedir='
	@echo 'make modules_install   capkm.ko and its udev rule: DESTDIR='
	@echo 'make dkms-install   sources of capkm.ko for DKMS, and its udev rule: DESTDIR='
	@echo 'make clean        remove O'
	@echo
	@echo 'O=dir builds in dir instead of ./build; WERROR=1 makes warnings errors;'
	@echo 'W=1 and C=1 go to the kernel build; V=1 shows commands.'

# The kernel's build system writes beside the sources, so it gets links to them.
kmod-links:
	@test -n '$(KDIR)' || { echo 'no kernel headers in /lib/modules; give KDIR=' >&2; exit 1; }
	@echo '  KERNEL  $(KREL) $(knote)'
	@mkdir -p $(kmod)
	@cp -rsf $(CURDIR)/Kbuild $(CURDIR)/VERSION $(CURDIR)/include $(CURDIR)/kmod $(kmod)/

kmod-dirs:
	@echo $(KDIR) $(kmod)

modules: kmod-links
	$(kbuild) $(if $(WERROR),KCFLAGS=-Werror) modules

lib:
	$(q)CFLAGS='$(CFLAGS) $(werror)' $(MAKE) -C lib O=$(O)/lib

tools:
	$(q)CFLAGS='$(CFLAGS) $(werror)' $(MAKE) -C tools/capadm O=$(O)/tools

selftests: lib
	$(q)CFLAGS='$(CFLAGS) $(werror)' LDFLAGS='$(LDFLAGS) -static' \
		$(MAKE) -C selftests O=$(O)/selftests LIB=$(O)/lib

# Not static: the driver's library is loaded. LD_LIBRARY_PATH says whose that is.
cuda-selftests: lib
	$(q)CFLAGS='$(CFLAGS) $(werror)' \
		$(MAKE) -C selftests/cuda O=$(O)/selftests-cuda LIB=$(O)/lib

asan:
	$(q)CFLAGS='$(CFLAGS) $(werror) $(SANITIZE)' LDFLAGS='$(LDFLAGS) $(SANITIZE)' \
		$(MAKE) -C lib O=$(O)/asan/lib
	$(q)CFLAGS='$(CFLAGS) $(werror) $(SANITIZE)' LDFLAGS='$(LDFLAGS) $(SANITIZE)' \
		$(MAKE) -C selftests O=$(O)/asan/selftests LIB=$(O)/asan/lib
	$(q)CFLAGS='$(CFLAGS) $(werror) $(SANITIZE)' LDFLAGS='$(LDFLAGS) $(SANITIZE)' \
		$(MAKE) -C selftests/cuda O=$(O)/asan/selftests-cuda LIB=$(O)/asan/lib

tsan:
	$(q)CFLAGS='$(CFLAGS) $(werror) $(TSAN)' LDFLAGS='$(LDFLAGS) $(TSAN)' \
		$(MAKE) -C lib O=$(O)/tsan/lib $(O)/tsan/lib/libcapkm.a \
		$(O)/tsan/lib/libcapkm-observe.a
	$(q)CFLAGS='$(CFLAGS) $(werror) $(TSAN)' LDFLAGS='$(LDFLAGS) $(TSAN)' \
		$(MAKE) -C selftests O=$(O)/tsan/selftests LIB=$(O)/tsan/lib threaded
	$(q)CFLAGS='$(CFLAGS) $(werror) $(TSAN)' LDFLAGS='$(LDFLAGS) $(TSAN)' \
		$(MAKE) -C selftests/cuda O=$(O)/tsan/selftests-cuda LIB=$(O)/tsan/lib

# The structs are the same for both; these programs show that.
m32:
	$(q)CFLAGS='$(CFLAGS) $(werror) -m32 -Wno-psabi' $(MAKE) -C lib O=$(O)/m32/lib $(O)/m32/lib/libcapkm.a
	$(q)CFLAGS='$(CFLAGS) $(werror) -m32 -Wno-psabi' LDFLAGS='$(LDFLAGS) -static' \
		$(MAKE) -C selftests O=$(O)/m32/selftests LIB=$(O)/m32/lib TESTS='abi session submit'

# With libc alone: that is all that libcapkm needs.
$(O)/example/transformer:
	$(q)CFLAGS='$(CFLAGS) $(werror)' $(MAKE) -C lib O=$(O)/lib $(O)/lib/libcapkm.a
	$(q)CFLAGS='$(CFLAGS) $(werror)' $(MAKE) -C tools/example O=$(O)/example LIB=$(O)/lib

observe-example: lib
	$(q)CFLAGS='$(CFLAGS) $(werror)' \
		$(MAKE) -C tools/example/observe O=$(O)/example LIB=$(O)/lib

cuda-example: lib
	$(q)CFLAGS='$(CFLAGS) $(werror)' $(MAKE) -C tools/example/cuda O=$(O)/example LIB=$(O)/lib

# Embedded, unless told otherwise: then nothing has to be loaded.
example: $(O)/example/transformer
	$(q)CAPKM_DEVICE="$${CAPKM_DEVICE:-embedded:}" $< $(ARGS)

$(O)/bench/capkm-bench: lib
	$(q)CFLAGS='$(CFLAGS) $(werror)' $(MAKE) -C tools/bench O=$(O)/bench LIB=$(O)/lib $@

cuda-bench: lib
	$(q)CFLAGS='$(CFLAGS) $(werror)' $(MAKE) -C tools/bench O=$(O)/bench LIB=$(O)/lib \
		$(O)/bench/capkm-bench-cuda

bench: $(O)/bench/capkm-bench
	$(q)$< $(ARGS)

check:
	+@scripts/check $(O)

lint:
	@scripts/setup
	+@$(MAKE) O=$(O) W=1 WERROR=1 all
	+@O=$(O) scripts/lint $(STAGES)

coverage:
	@scripts/setup
	+@$(MAKE) O=$(O) lib tools selftests $(O)/example/transformer observe-example
	@rc=0; O=$(O) selftests/vm/run --debug uml --coverage --timeout 3600 \
		--out $(O)/coverage || rc=$$?; scripts/coverage --missing $(O)/coverage/gcov && exit $$rc

check-matrix:
	@scripts/setup mmdebstrap debian-archive-keyring
	+@$(MAKE) O=$(O) lib tools selftests m32 $(O)/example/transformer observe-example \
		$(O)/bench/capkm-bench
	@O=$(O) selftests/vm/matrix $(ARGS) $(KERNELS)

# Instrumented, so of clang; that the library is built by it as well is worth something, too.
FUZZ := -O1 $(SANITIZE) -fsanitize=fuzzer-no-link
fuzz-targets:
	$(q)CFLAGS='$(CFLAGS) $(werror) $(FUZZ)' $(MAKE) -C lib CC=clang O=$(O)/fuzz/lib \
		$(O)/fuzz/lib/libcapkm.a $(O)/fuzz/lib/libcapkm-observe.a
	$(q)CFLAGS='$(CFLAGS) $(werror) $(FUZZ)' LDFLAGS='$(LDFLAGS) $(SANITIZE)' \
		$(MAKE) -C tools/capadm CC=clang O=$(O)/fuzz/tools
	$(q)CFLAGS='$(CFLAGS) $(werror)' $(MAKE) -C selftests/fuzz O=$(O)/fuzz \
		LIB=$(O)/fuzz/lib TOOLS=$(O)/fuzz/tools

SECONDS ?= 60
fuzz:
	@scripts/setup
	+@$(MAKE) O=$(O) fuzz-targets
	@selftests/fuzz/run --seconds $(SECONDS) $(O)/fuzz $(TARGETS) -- $(ARGS)

demo:
	@scripts/setup
	+@$(MAKE) O=$(O) lib tools selftests
	+@O=$(O) selftests/demo/run $(if $(FILE),'$(FILE)')

vm:
	@scripts/setup
	+@$(MAKE) O=$(O) lib tools selftests
	+@O=$(O) selftests/vm/run $(if $(CMD),-- sh -c '$(CMD)',--interactive --timeout 86400 -- setsid -c sh)

install: lib tools $(O)/bench/capkm-bench
	$(q)$(MAKE) -C lib O=$(O)/lib $(dirs) install
	$(q)$(MAKE) -C tools/capadm O=$(O)/tools $(dirs) install
	$(q)$(MAKE) -C tools/bench O=$(O)/bench LIB=$(O)/lib $(dirs) install

udev-rule = install -D -m 644 kmod/60-capkm.rules $(DESTDIR)/usr/lib/udev/rules.d/60-capkm.rules

modules_install: modules
	$(kbuild) $(if $(DESTDIR),INSTALL_MOD_PATH='$(DESTDIR)') INSTALL_MOD_DIR=extra modules_install
	$(udev-rule)

# No more than dkms.conf and Kbuild need.
dkms-install:
	for f in Kbuild VERSION dkms.conf $$(find include/uapi kmod -name '*.[ch]'); do \
		install -D -m 644 $$f $(DESTDIR)/usr/src/capkm-$(CAPKM_VERSION)/$$f || exit; \
	done
	$(udev-rule)

clean:
	rm -rf $(O)
