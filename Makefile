# make sandbox   a real prefill/decode service on this machine    make test      what every change has to pass
# make help      all targets                                      make test-all  and what is too long for that
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
SCENARIOS := default roll build host cleanup container preflight_faults ascend_2p1d_external
INTEGRATION := service router pool twin
# a service that is rolled under load for a quarter of an hour, one out of a bundle, the NPU twin of an old release, etcd and
# masters with all their faults
LONG_SCENARIOS := ascend_2p1d etcd master ha
LONG_INTEGRATION := roll bundle
TESTS_roll := test_4_roll.py
TESTS_service := test_1_bad_topology.py test_2_service.py test_3_installed.py test_5_status.py test_baseline.py \
	test_transport.py test_transport_engine.py
TESTS_bundle := test_bundle.py
# the longest first
PARTS := $(addprefix molecule-,$(SCENARIOS)) $(addprefix integration-,$(INTEGRATION)) sanity units oldest-core lint scale
LONG_PARTS := $(addprefix integration-,$(LONG_INTEGRATION)) $(addprefix molecule-,$(LONG_SCENARIOS))
TARGET_SIDE := tests/unit/plugins/modules/ tests/unit/plugins/module_utils/
# READY=1: `make test` has set up everything already
DEV := $(if $(READY),,setup-dev)
HOSTS := $(if $(READY),,setup-dev test-packages sandbox-environment twin-environment)
step = @printf '\n=== %(%H:%M:%S)T  %s\n' -1 "$(strip $(1))"

.PHONY: help
help: ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

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
.PHONY: setup-dev test-packages lint sanity units scale oldest-core twin-environment molecule integration
.PHONY: test test-all test-environment test-parts
setup-dev:
	@tests/tools/setup.sh requirements-dev.txt

test-packages:
	@tests/tools/packages.sh shellcheck haproxy g++

lint: $(DEV) $(if $(READY),,test-packages) ## ansible-lint, yamllint, ruff, mypy, shellcheck, changelog
	$(call step,lint)
	yamllint --strict .
	ruff check .
	ruff format --check .
	mypy
	shellcheck tests/tools/*.sh tests/hosts/lab .ci/run
	antsibull-changelog lint
	ansible-lint -q

sanity: $(DEV) ## ansible-test sanity of what users get; lint looks at the tests
	$(call step,ansible-test sanity)
	tests/tools/ansible_test.sh sanity --exclude tests/ --exclude molecule/

units: $(DEV) ## unit tests: what runs on targets with ansible-test, each in a process of its own; the rest with pytest
	$(call step,ansible-test units)
	tests/tools/ansible_test.sh units --requirements $(TARGET_SIDE)
	$(call step,unit tests of the controller side)
	cd .collections/ansible_collections/mooncake/pd && PYTHONPATH=$(CURDIR)/.collections \
	python -m pytest tests/unit -q -n 3 $(addprefix --ignore ,$(TARGET_SIDE))

scale: $(DEV) ## how plans grow with the hosts; and the tests of the mutation run
	$(call step,scale)
	PYTHONPATH=$(CURDIR)/.collections python -m pytest tests/scale tests/mutation -q

oldest-core: ## unit tests, inventories and playbooks with the oldest ansible-core that runs here
	$(call step,oldest ansible-core)
	tests/tools/oldest_core.sh

twin-environment: setup-dev ## installations of the NPU twin for the test hosts
	@tests/tools/twin.sh

molecule: $(addprefix molecule-,$(SCENARIOS) $(LONG_SCENARIOS)) ## role CI on real hosts: CPU engine, and whole NPU topologies on the twin

molecule-%: $(HOSTS)
	$(call step,molecule $*)
	tests/tools/molecule.sh test --scenario-name $*

integration: $(addprefix integration-,$(INTEGRATION) $(LONG_INTEGRATION)) ## faults and operation with real parts, through ansible-runner

integration-%: $(HOSTS)
	$(call step,integration $*)
	PYTHONPATH=$(CURDIR)/.collections MOONCAKE_PD_TEST_HAPROXY=/usr/sbin/haproxy MOONCAKE_PD_TEST_VLLM_ROUTER=$(CACHE)/router/bin/vllm-router \
	MOONCAKE_PD_TEST_MOONCAKE=$(CACHE)/engine \
	python -m pytest $(addprefix tests/integration/,$(or $(TESTS_$*),$*)) -v --durations=5

test-environment: setup setup-dev test-packages sandbox-environment twin-environment

test-parts: $(addprefix part-,$(PARTS))

part-%:
	@TIMEFORMAT='=== $* took %0R s, %0U + %0S s of CPU here' && time $(MAKE) --no-print-directory READY=1 $*

# two parts at a time; the output of a part comes when it has ended
run_parts = $(MAKE) --jobs 2 --keep-going --output-sync=target test-parts

test: ## what every change has to pass, without the tests that are marked as long
	@$(MAKE) test-environment
	@PYTEST_ADDOPTS='-m "not long"' $(run_parts)
	$(call step,all tests passed)

test-all: ## every test there is: an hour more
	@$(MAKE) test-environment
	@$(run_parts) PARTS='$(LONG_PARTS) $(PARTS)'
	$(call step,all tests passed)

# ---- measurements, no part of the tests
.PHONY: bench mutants
bench: setup-dev ## CPU seconds and memory for 250 and 1,000 hosts, against the limits that are promised
	python tests/scale/plan.py
	python tests/scale/preflight.py

mutants: setup-dev ## change facts of the planner one by one: do the tests notice? [FACTS=10] [SEED=]
	PYTHONPATH=$(CURDIR)/.collections python tests/mutation/run.py --facts $(or $(FACTS),10) $(if $(SEED),--seed $(SEED))
