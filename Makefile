# `make demo` and `make test` set everything up on a fresh Debian 12 machine; see README.md.
SHELL := /bin/bash -o pipefail
CARGO := $(shell command -v cargo || echo $$HOME/.cargo/bin/cargo)

.PHONY: build static container site install deb demo check test setup oracle recipes parity-elsewhere bench bench-parity bench-nbd bench-instructions boot-trial lint

build:
	scripts/setup
	$(CARGO) build --release --locked --workspace --exclude stria-testkit --exclude stria-walls

# A program that needs nothing but the kernel, for any distribution: target/x86_64-unknown-linux-musl/release/stria.
static:
	scripts/setup static
	$(CARGO) build --release --locked --target $$(uname -m)-unknown-linux-musl -p stria-manage

# The container image "stria", of that program (docs/CONTAINER.md).
container: static
	packaging/container/make

# The documentation as a web site that needs no network: target/site/index.html.
site: build
	scripts/setup site
	packaging/site/make

# Below $DESTDIR$PREFIX; PREFIX is /usr/local if not given.
install:
	packaging/install

# The Debian package of what was built, under target/deb.
deb: build
	packaging/deb/make

# The main job: measures every level on image files, then takes a RAID 6 through two failures under load.
demo: build
	target/release/stria demo --out target/stria-demo.html $(DEMO)

# The inner loop, in under two minutes: format, lints of the workspace, and the unit tests of the lowest crates.
check: lint
	$(CARGO) test --locked -p stria-block -p stria-parity -p stria-array -p stria-format --lib
	$(CARGO) test --locked -p stria-array --test modules
	$(CARGO) test --locked -p stria-walls

# Everything that is checked, lints and documentation included; at the end of the tests, which of them took longest.
test: setup lint
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	CARGO=$(CARGO) scripts/run-tests

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

setup:
	scripts/setup test

# Every combination against the real Linux md: some ten minutes more.
oracle: setup
	$(CARGO) test --locked -p stria-format -p stria-host -- --ignored --nocapture

# The recipes of docs/recipes, with the real LVM, DRBD, NVMe target and Ceph: some ten minutes. What is named: make recipes RECIPES=lvm.
recipes:
	scripts/setup recipes
	$(CARGO) build --locked -p stria-manage
	tests/recipes/run $(RECIPES)

# The Debian package on a Debian machine that boots (tests/boot): some twenty minutes. What is named: make boot-trial CASES="boots damage".
boot-trial:
	scripts/setup test
	$(CARGO) build --locked -p stria-manage
	package=$$(COMPRESSION=gzip packaging/deb/make target/debug target/deb-debug) && tests/boot/run --package "$$package" $(CASES)

# How fast, beside bare members and peers: tables under bench/results. What is named: make bench TABLES="levels nbd".
bench: build
	bench/run $(TABLES)

# The parity kernels under Miri, and NEON under an emulator.
parity-elsewhere:
	scripts/parity-elsewhere

bench-parity: build
	bench/parity/run

bench-nbd: build
	bench/nbd/nbd.sh

# What requests cost the processor, beside the bare member.
bench-instructions:
	bench/instructions/check --table
