# Everything a newcomer needs: `make demo` shows what longhand does, `make test` tests it. Both set themselves up, with
# the newest Python that longhand supports: `make test PYTHON=python3.12 TORCH='torch==2.12.*'` chooses otherwise.
VENV := .venv
BIN := $(VENV)/bin
DEMO := build/demo/attention_cpu
# Named after the list of modules: a new file needs to be linked into the installation.
STAMP := $(VENV)/installed-$(shell find capture emit longhand lower schedule -name '*.py' | sort | cksum | cut -d ' ' -f 1)
# Named after what was asked for: a plain `make` takes the environment that is there, another PYTHON= makes another.
ASKED := $(strip $(PYTHON) $(TORCH))
CHOICE := $(VENV)/$(if $(ASKED),asked-$(shell echo '$(ASKED)' | cksum | cut -d ' ' -f 1),made)

.PHONY: demo test lint sweep sanitize sanitize-cuda gallery bench matrix site clean

$(CHOICE):
	PYTHON='$(PYTHON)' TORCH='$(TORCH)' tests/environments/create.sh $(VENV)
	touch $(VENV)/made $@

$(STAMP): pyproject.toml $(CHOICE)
	# Strict: the rooms are linked one by one, so that type checkers and imports see what an installed longhand has.
	$(BIN)/python -m pip install --quiet --config-settings editable_mode=strict -e '.[dev]'
	rm -f $(VENV)/installed-*
	touch $@

demo: $(STAMP)
	$(BIN)/longhand generate examples.attention:small --device cpu --out $(DEMO)
	$(BIN)/longhand verify $(DEMO)
	$(BIN)/longhand bench $(DEMO)
	$(BIN)/longhand view $(DEMO)

# Black's style, which ruff writes as well, a hundred times as fast. What is emitted is black's own and held to it by the
# gallery, which is made anew byte by byte.
lint: $(STAMP)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check --quiet .
	# From another folder: here, `longhand` would be the bare folder of that name, without its rooms.
	cd build && ../$(BIN)/python -m mypy --config-file ../pyproject.toml -p longhand

# Bytecode is kept, whatever the environment says: hundreds of processes import longhand.
test: lint
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not gpu"

sweep: $(STAMP)
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not gpu"
	# Every kernel of every architecture of the installed packages, compiled for a GPU that need not be there.
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.architectures --compile-only -j 2

# The frame hook, the C files of CUDA units (with a stand-in for cuBLAS and the driver) and every C++ kernel of the
# gallery under AddressSanitizer and UndefinedBehaviorSanitizer.
sanitize: $(STAMP)
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0:alloc_dealloc_mismatch=0 UBSAN_OPTIONS=print_stacktrace=1 OMP_NUM_THREADS=2 \
	CC="gcc -fsanitize=address,undefined -fno-sanitize-recover=undefined -g" \
	CXX="g++ -fsanitize=address,undefined -fno-sanitize-recover=undefined -g" XDG_CACHE_HOME=$(CURDIR)/build/sanitized \
	$(BIN)/python -m tests.sanitized build/sanitized

# Every CUDA kernel of the gallery under compute-sanitizer, which comes with the CUDA toolkit: needs a GPU. It goes on
# where it was ended; SANITIZE='-j 8 --budget 480' takes eight pieces at once for eight minutes, --again begins anew.
sanitize-cuda: $(STAMP)
	$(BIN)/python -m tests.gpu.sanitize $(SANITIZE)

gallery: $(STAMP)
	$(BIN)/python -m examples.gallery

# Every pair of Python and torch that can be installed here; MATRIX='--only 3.12/2.11' and --whole choose.
matrix: $(STAMP)
	$(BIN)/python -m tests.environments.matrix $(MATRIX)

# The documentation as a site, in build/site.
site: $(STAMP)
	$(BIN)/python -m pip install --quiet --config-settings editable_mode=strict -e '.[docs]'
	$(BIN)/python -m mkdocs build --quiet --strict

bench: $(STAMP)
	$(BIN)/python -m benchmarks.cpu

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache
