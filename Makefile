# Everything here works from a fresh clone: each target first sets up what it needs (scripts/setup.sh).
SHELL := /bin/bash
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/.cache/collections
TIERS := .venv/bin/python scripts/tiers.py

.PHONY: help setup setup-python demo test test-unit test-simulated test-integration test-sanity test-packaging test-report test-rack \
	test-molecule lint wheel clean

help: ## This list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r a b; do \
		printf '%-24s %s\n' "$$a" "$$b"; done

setup: ## Install what everything needs: system packages (says which), Python packages in .venv
	@scripts/setup.sh all

setup-python: ## Install only the Python packages, in .venv
	@scripts/setup.sh python

demo: setup ## Two virtual servers: inspect, plan, configure, reboot, verify, benchmark; leaves report.html
	@scripts/demo.sh

test: setup ## All tests, then a table of what ran, how long, with which result
	@$(TIERS)

test-unit: setup-python ## Pure code and captured trees (under a minute)
	@$(TIERS) unit

test-simulated: setup-python ## The fabric on modelled hosts, by properties
	@$(TIERS) simulated

test-integration: setup-python ## The command line over Ansible, on trees
	@$(TIERS) integration

lint: setup-python ## ruff, mypy, ansible-lint, changelog, collection docs, shellcheck
	@$(TIERS) lint

test-sanity: setup-python ## ansible-test sanity
	@$(TIERS) sanity

test-packaging: setup-python ## The wheel in a clean environment, the README's commands
	@$(TIERS) packaging

test-report: setup ## The report in headless Chromium
	@$(TIERS) report

test-rack: setup ## The whole loop on the virtual rack, with faults
	@$(TIERS) rack

test-molecule: setup ## Molecule scenarios of the roles, on the virtual rack
	@$(TIERS) molecule

wheel: setup-python ## dist/nearmetal-VERSION.whl: the command and the collection
	@.venv/bin/python -m build --wheel --no-isolation --outdir dist .

clean: ## Stop the virtual rack, remove all that was made here (the node image stays in the user's cache)
	@if [ -x .venv/bin/nearmetal ]; then .venv/bin/nearmetal lab down || true; fi
	rm -rf .venv .cache .nearmetal .mypy_cache .ruff_cache .pytest_cache .hypothesis .ansible dist report.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
