# SPDX-License-Identifier: GPL-2.0
# Everything is built and run in a Debian root of its own (the lab, in build/lab). The machine needs
# make, git, a package manager and 10 GB of disk. `make help` lists the targets.

MAKEFLAGS += --no-print-directory
DESTDIR ?=
# The kernel: 7.3 or 6.12.
BASE ?= 7.3

.PHONY: help
help:
	@echo 'make demo      checkpoint, kill and restore a GPU process on a software GPU;'
	@echo '               ASIC=NAME: mi210, mi300x, mi300x-small or navi31'
	@echo 'make demo-train  the same with a training run, and a plot of its loss; ASIC=NAME, too'
	@echo 'make demo-llm  the same with a language model of llama.cpp (10 GB more of disk);'
	@echo '               ASIC=NAME: mi210 or navi31'
	@echo 'make demo-serve  snapshots and replicas of llama-server, with a picture (the disk of demo-llm)'
	@echo 'make check     run every test; the last line counts passed and failed tests'
	@echo 'make vm        open a shell in the guest with software GPUs'
	@echo
	@echo 'make lab       tool chain, guest image and kernel (other targets make it when it is missing)'
	@echo 'make module    amdgpu.ko with checkpoint/restore: build/module/7.3/amdgpu.ko'
	@echo '               WITH_DISPLAY=1: the whole driver, for a machine with a screen'
	@echo '               BASE=6.12: for the other kernel, as in make vm and make install'
	@echo 'make host      CRIU plugin, software GPU, tools: build/release'
	@echo 'make unit      unit tests, with sanitizers      (ARGS='*NAME*': some of them)'
	@echo 'make static    checkpatch, sparse, clang-tidy …  (ARGS=NAME: one of them)'
	@echo 'make check-X   one rung of the ladder and what it needs: lab module host unit static guest'
	@echo '               demo deb; 6.12: the guest tests with that kernel'
	@echo 'make check-debug  the guest tests in a kernel with KASAN, lockdep, kmemleak and more'
	@echo '               KCSAN=1: those on two CPUs in a kernel that finds data races'
	@echo 'make campaign  list the tests that take hours    (ARGS=NAME: run one)'
	@echo 'make bench     compare dump and restore with the limits of the machine and another plugin:'
	@echo '               build/bench  (OTHER_PLUGIN=FILE; SCALE=1: full sizes; ARGS=--here: on this'
	@echo '               machine and its GPU)'
	@echo 'make bench-host  measure on this machine how fast contents are saved, without a GPU'
	@echo 'make bench-gpu  wave instructions per second of the software GPU, and what a hashed byte costs'
	@echo 'make series    the kernel patches as mails: outgoing/7.3-kfd, 7.3-render, 6.12-…'
	@echo '               BUILD=1: build after each patch'
	@echo 'make install   plugin, command, man pages and module under DESTDIR'
	@echo 'make install-tests  amdgpu-criu-selftest and its tests, for a machine with a GPU'
	@echo 'make deb       Debian packages of plugin, command, header, module (DKMS) and tests: build/deb'
	@echo 'make deb-source  the source package of these: build/deb-source'
	@echo 'make clean     remove what was built, keep the lab; make distclean: remove the lab too'

.PHONY: demo demo-llm demo-serve demo-train vm
demo demo-llm demo-serve demo-train vm: lab module host
demo:
	@scripts/demo $(ARGS)
demo-train:
	@scripts/demo-train
demo-llm:
	@scripts/rocm
	@scripts/demo-llm
demo-serve:
	@scripts/rocm
	@scripts/demo-serve
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

.PHONY: check check-lab check-module check-host check-unit check-static check-demo check-guest
.PHONY: check-deb check-6.12 check-debug campaign host-machine
check check-lab check-module check-host check-unit check-static check-demo check-debug check-guest \
  check-deb check-6.12 campaign: host-machine
host-machine:
	@scripts/lab --host
check:
	@scripts/check
check-lab check-module check-host check-unit check-static check-demo: check-%:
	@scripts/check $*
check-debug:
	@scripts/check $(if $(filter 1,$(KCSAN)),kcsan,debug)
check-guest:
	@scripts/check e2e suites guest
check-deb:
	@scripts/check deb deb-guest
check-6.12:
	@scripts/check guest-6.12
campaign:
	@scripts/campaign $(ARGS)

.PHONY: bench
bench: lab module host
	@OTHER_PLUGIN='$(OTHER_PLUGIN)' SCALE='$(SCALE)' scripts/bench $(ARGS)

.PHONY: bench-host
bench-host: lab
	@scripts/bench-host $(ARGS)

.PHONY: bench-gpu
bench-gpu: lab
	@scripts/host release gpu_bench
	@scripts/in-lab build/release/selftests/bench/gpu_bench $(ARGS)

.PHONY: series
series: lab
	@scripts/series $(if $(filter 1,$(BUILD)),--build) $(ARGS)

.PHONY: install
install: module host
	@scripts/install '$(DESTDIR)' $(BASE)$(if $(filter 1,$(WITH_DISPLAY)),-display)

.PHONY: install-tests
install-tests: host
	@scripts/install --tests '$(DESTDIR)'

.PHONY: deb deb-source
deb: lab
	@scripts/deb
deb-source: lab
	@scripts/deb --source

.PHONY: clean distclean
clean:
	rm -rf build/release build/test build/fuzz build/module build/kbuild build/stage build/install \
	  build/next build/series build/results build/deb build/deb-source outgoing
distclean: clean
	@scripts/lab --remove
	rm -rf build
