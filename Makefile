.DEFAULT_GOAL := help
.PHONY: help up down test test-quick check bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: ## Set up what is missing, start the product, run a first container
	@scripts/up.sh

down: ## Stop the product; containers go on running
	@scripts/down.sh

test: ## Set up what the tests need and run all of them
	@scripts/test.sh $(ARGS)

test-quick: ## Run the tests that need no container engine
	@scripts/test_quick.sh $(ARGS)

check: ## Style, types, layers, generated reference
	@scripts/check.sh

bench: ## Measure, beside the engine's own floor
	@scripts/bench.sh $(ARGS)

clean: ## Remove the virtual environments and all state
	@scripts/clean.sh
