# SPDX-License-Identifier: GPL-2.0
# Everything is built and run in a Debian root of its own (the lab, in build/lab), so this machine
# needs no more than make, a package manager and some 8 GB of disk. `make help` says what there is.

MAKEFLAGS += --no-print-directory
DESTDIR ?=
# The kernel: 7.2 or 6.12.
BASE ?= 7.2

.PHONY: help
help:
	@echo 'make demo      see a GPU process being saved, killed and restored, on a software GPU'
	@echo 'make check     run every test; the last line says how many passed and failed'
	@echo 'make vm        a shell in the guest with software GPUs'
	@echo
	@echo 'make lab       tool chain, guest image and kernel (the others make it when it is missing)'
	@echo 'make module    amdgpu.ko with checkpoint/restore: build/module/7.2/amdgpu.ko'
	@echo '               WITH_DISPLAY=1: the whole driver, for a machine with a screen'
	@echo '               BASE=6.12: for the other kernel, as in make vm and make install'
	@echo 'make host      CRIU plugin, software GPU, tools: build/release'
	@echo 'make unit      unit tests, with sanitizers      (ARGS=-R NAME: some of them)'
	@echo 'make static    checkpatch, sparse, clang-tidy …  (ARGS=NAME: one of them)'
	@echo 'make check-X   one rung of the ladder: lab module host unit static guest deb; 6.12: those two'
	@echo '               with that kernel'
	@echo 'make check-debug  the guest rung in a kernel with KASAN, lockdep, kmemleak and more'
	@echo 'make campaign  what takes hours, whole          (ARGS=NAME; without: which there are)'
	@echo 'make soak      processes that share everything, dumped and restored 100 times'
	@echo 'make bench     how fast, beside the limits and another plugin: build/bench  (OTHER_PLUGIN=FILE;'
	@echo '               SCALE=1: full sizes; ARGS=--here: on this machine and its GPU)'
	@echo 'make series    the kernel patches as mails: outgoing/7.2, outgoing/6.12'
	@echo '               BUILD=1: builds after each patch'
	@echo 'make install   plugin, command, man pages and module under DESTDIR'
	@echo 'make deb       Debian packages of plugin, command, header and module (DKMS): build/deb'
	@echo 'make clean     removes what was built, keeps the lab; make distclean: the lab too'

.PHONY: demo vm
demo vm: lab module host
demo:
	@scripts/demo $(ARGS)
vm:
	@selftests/vm/run --base $(BASE) $(or $(ARGS),--gpus 1)

.PHONY: lab module host unit static
lab:
	@scripts/lab
module: lab
	@scripts/module $(BASE) $(if $(filter 1,$(WITH_DISPLAY)),--with-display)
host: lab
	@scripts/host release
unit: lab
	@scripts/unit $(ARGS)
static: lab
	@scripts/static $(ARGS)

.PHONY: check check-lab check-module check-host check-unit check-static check-guest check-deb check-6.12
.PHONY: check-debug
check:
	@scripts/check
check-lab check-module check-host check-unit check-static: check-%:
	@scripts/check $(if $(filter-out lab,$*),lab) $*
check-guest:
	@scripts/check lab module host e2e guest
check-deb:
	@scripts/check lab module host deb
check-6.12:
	@scripts/check lab module module-6.12 host guest-6.12
check-debug:
	@scripts/check lab host debug

.PHONY: campaign
campaign: $(if $(ARGS),lab host)
	@scripts/campaign $(ARGS)

.PHONY: soak
soak: lab host
	@scripts/campaign soak

.PHONY: bench
bench: lab module host
	@OTHER_PLUGIN='$(OTHER_PLUGIN)' SCALE='$(SCALE)' scripts/bench $(ARGS)

.PHONY: series
series: lab
	@scripts/series $(if $(filter 1,$(BUILD)),--build) $(ARGS)

.PHONY: install
install: module host
	@scripts/install '$(DESTDIR)' $(BASE)$(if $(filter 1,$(WITH_DISPLAY)),-display)

.PHONY: deb
deb: lab
	@scripts/deb

.PHONY: clean distclean
clean:
	rm -rf build/release build/test build/fuzz build/module build/kbuild build/stage build/install \
	  build/series build/results build/deb outgoing
distclean: clean
	@scripts/lab --remove
	rm -rf build
