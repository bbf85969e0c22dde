# Thin targets; the work is in CMakePresets.json and scripts/. Every target may be repeated.

.DEFAULT_GOAL := help
.PHONY: help packages lint-packages build run up down test test-container test-dax fuzz torture \
	bench bench-quick bench-file bench-server bench-fairness bench-flames bench-hostile format \
	lint clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s  %s\n", $$1, $$2}' $(MAKEFILE_LIST)

packages:
	@scripts/install_packages

lint-packages:
	@scripts/install_packages --lint

build: packages  ## release binaries in build/release/bin: lodgekvd, lodgectl, engine_bench
	@scripts/build release

run: packages  ## install, build, create data/lodgekv.pool and its journal if missing, and serve
	@scripts/build release lodgekvd lodgectl
	@mkdir -p data
	@exec build/release/bin/lodgekvd --config config/dev.yaml $(ARGS)

up: packages  ## as run, in the background, with a Prometheus that scrapes it
	@scripts/build release lodgekvd lodgectl
	@deploy/local/stack up

down:  ## stops what up started
	@deploy/local/stack down

test: packages  ## install, build, run the daily tests; ends with ctest's summary
	@scripts/check

test-container: packages  ## builds and tests the image of the Dockerfile (minutes)
	@scripts/install_packages --deploy
	@scripts/build release lodgekvd lodgectl
	@ctest --test-dir build/release -R '^deploy_container_test$$' --output-on-failure

test-dax: packages  ## power cuts of virtual machines with emulated persistent memory (minutes)
	@scripts/test_dax

fuzz: packages  ## parsers of foreign bytes, under libFuzzer for some minutes; ARGS: scripts/fuzz -h
	@scripts/install_packages --fuzz
	@scripts/fuzz $(ARGS)

torture: packages  ## crashes and damage for TORTURE_MINUTES; unset: every long test (hours)
	@scripts/install_packages --deploy || echo "image and API server will not be tested"
	@scripts/install_packages --dax || echo "persistent memory in virtual machines will not be tested"
	@scripts/install_packages --fuzz
	@LODGEKV_INSTALL_HELM=yes LODGEKV_INSTALL_API_SERVER=yes scripts/torture

bench: packages  ## every figure to reach beside what is measured, into build/bench (under an hour)
	@scripts/bench $(ARGS)

bench-quick: packages  ## the same with few keys (under 5 minutes)
	@scripts/bench --quick $(ARGS)

bench-file: packages  ## an ordinary file measured beside etcd and Redis (a quarter of an hour)
	@scripts/bench_file $(ARGS)

bench-server: packages  ## the server beside a no-op one, into build/bench (a quarter of an hour)
	@scripts/bench_server $(ARGS)

bench-fairness: packages  ## a Get beside scans, large batches and values (minutes)
	@scripts/build release lodgekvd call_cost
	@python3 -B bench/server_bench/fairness.py --bin build/release/bin $(ARGS)

bench-flames: packages  ## flame graphs of the server's writes, into docs/benchmarks (needs perf)
	@scripts/build release lodgekvd call_cost
	@python3 -B bench/figures/flames.py --bin build/release/bin $(ARGS)

bench-hostile: packages  ## what an honest client sees while others attack (minutes)
	@scripts/build release lodgekvd lodgectl
	@python3 -B bench/hostile/measure.py $(ARGS)

format: lint-packages  ## clang-format over every C++ and proto file
	@scripts/format

lint: lint-packages  ## formatting and clang-tidy; changes nothing
	@scripts/lint

clean:  ## removes build/; the pool and its journal in data/ stay
	@rm -rf build
