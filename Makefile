.DEFAULT_GOAL := help
LONG_FAULTS := $(addprefix tests/,faults/test_engine_of_its_own.py faults/test_kill_at_each_change.py \
	faults/test_processes_killed.py services/test_node_cut_off.py)
.PHONY: help up down test test-all test-cloud test-quick testbed-up testbed-down tempest check fuzz bench bench-cloud bench-fleet soak clean nightly

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: ## Set up what is missing, start the product, run a first container
	@scripts/up.sh

down: ## Stop the product; containers go on running
	@scripts/down.sh

test: ## Set up what the tests need and run all that need no cloud
	@scripts/test.sh machine $(ARGS)

test-cloud: ## Start a real OpenStack on this machine and run the tests beside it
	@scripts/test.sh cloud $(ARGS)

test-all: ## Both, side by side
	@scripts/test.sh all $(ARGS)

test-quick: ## Run the tests that need no container engine and no cloud
	@scripts/test_quick.sh $(ARGS)

testbed-up: ## Start the OpenStack services that cloud tests need
	@scripts/testbed_up.sh

testbed-down: ## Stop them; ARGS=--wipe deletes their data
	@scripts/testbed_down.sh $(ARGS)

tempest: ## Run zun-tempest-plugin; ARGS=--version 1.40 one pass of it
	@scripts/tempest.sh $(ARGS)

check: ## Style, types, layers, generated reference
	@scripts/check.sh

fuzz: ## Send 120,000 requests that nobody sends; ARGS=--mutated 1000 --chained 0 fewer
	@scripts/fuzz.sh $(ARGS)

nightly: ## Run 500 random sequences of verbs, faults, kills and restarts, and faults in full length; ARGS to pytest
	@ZUN_LONG_FAULTS=1 ZUN_CHANCE_SEQUENCES=$${ZUN_CHANCE_SEQUENCES:-500} ZUN_CHANCE_SEED=$${ZUN_CHANCE_SEED:-$$(date +%s)} \
		scripts/test.sh machine $(LONG_FAULTS) tests/faults/test_by_chance.py $(ARGS)

bench: ## Measure, beside the engine's own floor
	@scripts/bench.sh main $(ARGS)

bench-cloud: ## Measure beside the testbed's cloud, and the same calls by hand
	@scripts/bench.sh cloud $(ARGS)

bench-fleet: ## Measure 1,000 simulated nodes on a real database and broker; ARGS=--quick 100 nodes
	@scripts/bench.sh fleet $(ARGS)

soak: ## Measure what 3,000 lives of containers and 1,000 sessions leave; ARGS=--quick 200 and 100
	@scripts/bench.sh main --only soak $(ARGS)

clean: ## Remove the virtual environments and all state
	@scripts/clean.sh
