# Thin targets; the work is in CMakePresets.json and scripts/. Every target may be repeated.

.DEFAULT_GOAL := help
.PHONY: help packages lint-packages build run test torture format lint clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s  %s\n", $$1, $$2}' $(MAKEFILE_LIST)

packages:
	@scripts/install_packages

lint-packages:
	@scripts/install_packages --lint

build: packages  ## release binaries in build/release/bin: lodgekvd, lodgectl, engine_bench
	@scripts/build release

run: packages  ## install, build, create data/lodgekv.pool if there is none, and serve it
	@scripts/build release lodgekvd lodgectl
	@mkdir -p data
	@exec build/release/bin/lodgekvd --config config/dev.yaml $(ARGS)

test: packages  ## install, build, run every test; ends in ctest's closing lines
	@scripts/check

torture: packages  ## crashes and damage for TORTURE_MINUTES; unset: every long test (hours)
	@scripts/torture

format: lint-packages  ## clang-format over every C++ and proto file
	@scripts/format

lint: lint-packages  ## formatting and clang-tidy; changes nothing
	@scripts/lint

clean:  ## removes build/; the pool in data/ stays
	@rm -rf build
