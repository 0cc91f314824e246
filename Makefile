# make sandbox   a real prefill/decode service on this machine    make test      every test
# make help      all targets
SHELL := /bin/bash
.DELETE_ON_ERROR:
.SHELLFLAGS := -euo pipefail -c

# 1p1d or 2p2d
SHAPE ?= 1p1d
SANDBOX := inventories/sandbox$(if $(filter-out 1p1d,$(SHAPE)),_$(SHAPE))
CACHE := /var/cache/mooncake-pd
# where pip's own settings cannot supply the CPU build of torch: URL of an index that has it
TORCH_INDEX ?=
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
LAB := tests/hosts/lab
step = @printf '\n=== %(%H:%M:%S)T  %s\n' -1 "$(strip $(1))"

.PHONY: help
help: ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

# ---- the sandbox
.PHONY: setup sandbox-environment sandbox sandbox-down
setup: ## make .venv with ansible-core
	@tests/tools/setup.sh requirements.txt

sandbox-environment: setup ## build the test hosts' image and the engine's environment, once
	$(call step,packages and image of the test hosts)
	@$(LAB) packages
	@$(LAB) image
	$(call step,engine, router and model in $(CACHE))
	@ansible-playbook -i localhost, tests/sandbox/environment.yml $(if $(TORCH_INDEX),-e engine_wheel_index=$(TORCH_INDEX))

sandbox: sandbox-environment ## bring up a proven prefill/decode service on hosts of its own
	$(call step,hosts of $(SANDBOX))
	@$(LAB) up sandbox --inventory $(SANDBOX) $(addprefix --mount $(CACHE)/,engine router model)
	$(call step,site.yml)
	@ansible-playbook site.yml -i $(SANDBOX)

sandbox-down: setup ## remove the sandbox's hosts and network
	@$(LAB) down sandbox

# ---- the tests
.PHONY: setup-dev lint sanity units cores molecule integration test
setup-dev:
	@tests/tools/setup.sh requirements-dev.txt

lint: setup-dev ## ansible-lint, yamllint, ruff, mypy, shellcheck, changelog
	$(call step,lint)
	yamllint --strict .
	ruff check .
	ruff format --check .
	mypy
	shellcheck tests/tools/*.sh .ci/run
	antsibull-changelog lint
	ansible-lint --quiet

sanity: setup-dev ## ansible-test sanity
	$(call step,ansible-test sanity)
	tests/tools/ansible_test.sh sanity

units: setup-dev ## ansible-test units
	$(call step,ansible-test units)
	tests/tools/ansible_test.sh units --requirements

molecule: setup-dev sandbox-environment ## role CI on real hosts
	$(call step,molecule)
	tests/tools/molecule.sh test --scenario-name default

integration: setup-dev sandbox-environment ## faults and operation on real hosts, through ansible-runner
	$(call step,integration)
	python -m pytest tests/integration -v

test: lint sanity units molecule integration ## every test
	$(call step,all tests passed)
