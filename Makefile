# SPDX-License-Identifier: MIT OR Apache-2.0
# Every target is safe to run again; `make help` lists them. Two jobs at most: models and provers need memory.
SHELL := /bin/bash
export CARGO_BUILD_JOBS ?= 2
XTASK := cargo xtask
# the nicer test runner when it is there
NEXTEST := $(shell command -v cargo-nextest 2>/dev/null)
TEST_THREADS ?= 2
ifdef NEXTEST
RUN_TESTS := cargo nextest run --workspace --test-threads $(TEST_THREADS) --no-fail-fast
else
RUN_TESTS := cargo test --workspace --no-fail-fast -- --test-threads $(TEST_THREADS)
endif

.PHONY: interop-siw large help setup demo test lint synth pnr formal mutants mutants-tcp mutants-rdma loom bench docs netlist-test waves tap vfio-guest clean
.DEFAULT_GOAL := help

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r t d; do printf '  make %-13s %s\n' "$$t" "$$d"; done

setup: ## Install the tools (Debian packages, build/venv); first step of demo and test
	@bash tools/setup.sh

demo: setup ## Two adapters: LISTEN, ping over ARP, connections and every way they end, rping and perf; cycles in build/report/demo.json
	cargo run --quiet --release -p ironwarp-cli -- demo

test: lint ## All gates, then all tests
	$(RUN_TESTS)

lint: setup ## Formatting, clippy, HDL lint, iverilog, verilator, yosys, licences, generated documents
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings
	$(XTASK) lint
	$(XTASK) registers --check
	$(XTASK) requirements --check

docs: ## Regenerate docs/registers.md and docs/requirements.md
	$(XTASK) registers
	$(XTASK) requirements

synth: setup ## Every block through yosys and nextpnr: docs/synthesis.md, build/report/synth.json (BLOCKS=.. prints only)
	$(XTASK) synth $(BLOCKS)

pnr: setup ## Place and route the whole core (long)
	$(XTASK) pnr

netlist-test: setup ## The block tests once more on the netlists that yosys read (BLOCKS=..)
	$(XTASK) netlist-test $(BLOCKS)

formal: setup ## Prove the port database, and find the counter-example of a broken one
	bash formal/run.sh

MUTANTS ?= 40
MUTANT_BLOCKS ?= port_db arp engine
MUTANT_REPORT ?= --report
mutants: setup ## Break port_db, arp and engine MUTANTS times each and see whether their tests notice (long)
	$(XTASK) mutants $(MUTANT_REPORT) --count $(MUTANTS) $(MUTANT_BLOCKS)

loom: ## The connection manager's races under a model checker that tries every order of two threads (minutes)
	RUSTFLAGS="--cfg loom" cargo test --quiet --release --target-dir target/loom -p ironwarp-iwcm --test loom

bench: setup ## What connections and data cost: cycles stage by stage, set-ups and messages a second, goodput, the host's instructions; build/report/bench.json
	cargo run --quiet --release -p ironwarp-cli -- bench
	bash tools/host-cost/run.sh

TCP_BLOCKS := seg_rx seg_tx lookup isn deadlines tcp_rx tcp_tx start_rx start_tx negotiate conn
mutants-tcp: ## The same for the blocks of TCP, MPA and connections, 60 mutants each (hours)
	$(MAKE) mutants MUTANTS=60 MUTANT_BLOCKS="$(TCP_BLOCKS)"

RDMA_BLOCKS := mpa_tx mpa_rx rdma_sq rdma_rx rdma_regions_small rdma_completions_small rdma_qps_small qp_link
mutants-rdma: ## The same for the blocks of the data path, 60 mutants each (hours)
	$(MAKE) mutants MUTANTS=60 MUTANT_BLOCKS="$(RDMA_BLOCKS)"

waves: setup ## FST of one test: make waves BLOCK=chan_fifo
	WAVES=1 cargo test -p ironwarp-models --test $(or $(BLOCK),chan_fifo)

PINGS ?= 10000
LIVES ?= 100
tap: setup ## Linux's ping, ARP, curl and plain TCP sockets against the adapter and the host behind it, over TAPs (root; PINGS=.., LIVES=..)
	cargo test --quiet -p ironwarp-sim --test tap -p ironwarp-cli --test l2 -- --ignored
	PINGS=$(PINGS) bash tests/tap/run.sh
	LIVES=$(LIVES) bash tests/tap/mpa.sh
	bash tests/tap/cross.sh

OPS ?= 300
large: setup ## Two adapters of the profile `large`, with frames of 9000 octets and 200 connections at once (its core takes long to build; OPS=..)
	IRONWARP_PROFILE=large OPS=$(OPS) cargo test --quiet -p ironwarp-tests --test large -- --ignored --nocapture --test-threads 1

interop-siw: setup ## Linux's software iWARP, rdma-core and perftest in a QEMU guest against `ironwarp` on soft and on the adapter, both roles (root, downloads 225 MB once; SHORT=1, ONLY=.., DEVICE=..)
	bash tools/vfio-guest/qemu.sh build/qemu
	bash tools/siw-guest/build.sh build/siw-guest
	cargo build --quiet --release -p ironwarp-cli
	python3 tools/siw-guest/interop.py $${CARGO_TARGET_DIR:-target}/release/ironwarp $(if $(SHORT),--short) $(if $(DEVICE),--device $(DEVICE)) --only "$(ONLY)"

vfio-guest: setup ## Driver in a QEMU guest on the kernel's vfio-pci, against the Verilated adapter
	bash tools/vfio-guest/run.sh

clean: ## Remove what was built; tools and downloads stay
	cargo clean
	rm -rf build/verilated build/netlists build/lint build/synth build/mutants build/report
