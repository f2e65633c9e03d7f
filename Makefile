# Two commands do everything on a machine that has Python (3.10 or newer) and git:
#   make demo    a virtual environment with the smallest install, two small downloads, the demo
#   make test    the same environment with the test tools and PyTorch, then the test suite
#                ('make setup' stops before the suite)
# And one more shows it to others:
#   make web     exports a watermark as a page that verifies in a browser, and opens it
# All can be run again at any time; what is there already is not fetched twice.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
SITE   ?= site
PIP    := $(BIN)/python -m pip --disable-pip-version-check

# PyPI's torch for Linux brings gigabytes of CUDA libraries. Where there is no NVIDIA GPU, take
# PyTorch's own CPU build instead; other systems get a CPU build from PyPI anyway.
TORCH     := 2.13.0
TORCH_CPU := https://download.pytorch.org/whl/cpu
HAS_CUDA  := $(shell nvidia-smi -L 2>/dev/null)

.PHONY: demo setup test web web-page lint format docs dist clean

demo: $(VENV)/base
	@$(BIN)/coverlock fetch steganogan photos
	@$(BIN)/coverlock demo

setup: $(VENV)/dev

test: $(VENV)/dev
	@$(BIN)/coverlock fetch steganogan rivagan
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

web: web-page
	@$(BIN)/python -m webbrowser -t "file://$(abspath $(SITE))/index.html" || true

web-page: $(SITE)/index.html
	@echo "page: $(abspath $(SITE))/index.html"

$(SITE)/index.html: $(VENV)/practice-photos $(wildcard web/coverlock_web/*.py web/coverlock_web/page/*)
	@$(BIN)/coverlock fetch onnxruntime-web
	@rm -rf $(VENV)/web-bundle
	@$(BIN)/coverlock export mbrs --images $(VENV)/practice-photos --precision fp32 \
	    --out $(VENV)/web-bundle
	@$(BIN)/coverlock web $(VENV)/web-bundle --out $(SITE)

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/docs $(SITE)/index.html $(VENV)/sample-audit/report.html
	@mkdir -p build/made
	@cp $(SITE)/index.html build/made/try.html
	@cp $(VENV)/sample-audit/report.html build/made/sample-audit.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "open build/docs/index.html; search works after 'python3 -m http.server -d build/docs'"

$(VENV)/sample-audit/report.html: $(VENV)/docs $(VENV)/practice-photos $(wildcard bench/coverlock_bench/auditing/*)
	@echo "auditing a public watermark, which takes a few minutes"
	@$(BIN)/coverlock audit blind-watermark --preset smoke --images $(VENV)/practice-photos \
	    --out $(VENV)/sample-audit
	@touch $@

dist: $(VENV)/dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python scripts/check_distribution.py dist

clean:
	rm -rf $(VENV) build dist

$(VENV)/base: pyproject.toml
	@echo "setting up $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/dev: $(VENV)/base
	@echo "installing PyTorch and the test tools"
ifeq ($(shell uname -s)$(HAS_CUDA),Linux)
	@$(PIP) install --quiet --no-deps --retries 1 --extra-index-url $(TORCH_CPU) "torch==$(TORCH)+cpu"
endif
	@$(PIP) install --quiet "torch==$(TORCH)" --editable ".[dev,export]"
	@touch $@

$(VENV)/docs: $(VENV)/dev
	@$(PIP) install --quiet --editable ".[blind-watermark,docs]"
	@touch $@

$(VENV)/practice-photos: $(VENV)/dev
	@$(BIN)/coverlock fetch photos
	@$(BIN)/python examples/practice_photos.py $@
	@touch $@
