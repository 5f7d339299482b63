# SPDX-License-Identifier: Apache-2.0
# Entry point: see `make help`. CMake and Ninja do the work; each kind of build has a folder.
FUZZ_SECONDS ?= 20
PREFIX ?= /usr/local
# GPUs for whose kernels nvcc, if installed, compiles packages and releases; CUDA_ARCHS=auto: this machine's GPU, if
# any
CUDA_ARCHS ?= all
# $(call set_archs,FOLDER) reconfigures a build folder whose kernels are for other GPUs
set_archs = @grep -qxF 'EY_CUDA_ARCHS:STRING=$(CUDA_ARCHS)' $(1)/CMakeCache.txt || \
  cmake -B $(1) -DEY_CUDA_ARCHS='$(CUDA_ARCHS)' >/dev/null
CMAKE = cmake -G Ninja -S .
# on a terminal Ninja updates one line; elsewhere it prints only failures
NINJA := ninja $(shell test -t 2 || echo --quiet)
# asserts are on in every build; sanitizer builds are optimized, since the reference backend is slow
SANITIZED = -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O2 -g1" -DEY_SANITIZE

# the reference backend takes minutes for these with sanitizers; the other goldens and test_kernels cover the same
# code
SLOW = ^(golden_(tiny-gqa4-fp8|demo)_ref|test_engine_agree)$$
# slow tests on which the compiler has no influence
LONG = |^(load_two_models|load_short|cli_pull|pull_faults|constrain_walks)$$
# CI's sample of make clang: tests whose arithmetic depends on the compiler
ARITHMETIC = ^(test_kernels|make_.*|golden_.*_cpu.*)$$
# CI's sample of make asan: parsers of untrusted bytes, and code that allocates
DOORS = ^fuzz_|^library$$|^test_(base|sandbox|safetensors|shards|gguf|hf_cache|model_damaged|image|tokenizer|prompt|constrain|hub|media|api|request_checks|http|remote)
# multi-threaded code: engine, server, downloads
THREADS = ^test_(base|budget|engine|model_manager|http|media|api_routes|hub|remote|grammar_cache|image_cache|kv|kernels)|^load_|^serve$$|^cli_server$$|^pull_faults$$

.PHONY: all demo install deb wheel check test emulated test-clients test-ui test-packages load bench-serve clean help
.PHONY: test-abuse test-python nightly asan asan-quick asan-quick-build tsan clang clang-quick clang-quick-build kernels fuzz portable
.PHONY: setup setup-clang setup-style setup-portable setup-clients setup-ui setup-install setup-packages setup-python setup-wheel
all: setup build/build.ninja
	@$(NINJA) -C build

help:
	@echo 'make               build/eyelet (as root, installs missing packages; else lists them)'
	@echo 'make demo          describe the dozen images in examples/'
	@echo 'make install       into PREFIX=$(PREFIX), below DESTDIR: program, libeyelet, manual, completions, systemd unit'
	@echo 'make deb           dist/*.deb for Debian 12: eyelet, libeyelet0, libeyelet-dev'
	@echo 'make wheel         dist/eyelet-VERSION-py3-none-manylinux_2_35_x86_64.whl: library, program, Python package,'
	@echo '                   with kernels for all GPUs if nvcc is installed; CUDA_ARCHS=auto: for this one'
	@echo 'make check         style, layers and names, in seconds (docs/testing.md)'
	@echo 'make test          build and run all tests; one: make test T=name'
	@echo 'make test-clients  the API with common clients (npm), documents, examples, two servers behind nginx'
	@echo 'make test-ui       the web page in a browser (npm, chromium); writes tests/ui/screenshots'
	@echo 'make test-packages results of make install and make deb, with lintian, systemd and three shells'
	@echo 'make test-python   the Python package with the library of this build'
	@echo 'make test-abuse    attacks on a server, each bounded to a minute (docs/guides/security.md)'
	@echo 'make load          64 concurrent clients, half of their requests malformed; about a minute'
	@echo 'make bench-serve   client-side speed of the server: first token, token to token, tokens a second'
	@echo 'make nightly       the long checks, PART=release, asan, newcomer …: one of them (tools/nightly.sh)'
	@echo 'make asan, tsan    the tests with AddressSanitizer and UndefinedBehaviorSanitizer, or ThreadSanitizer; a sample of the longest'
	@echo 'make clang         the tests compiled by clang; a sample of the longest, without the emulated GPU'
	@echo 'make fuzz          each fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS)'
	@echo 'make portable      dist/: a folder and a .tar.xz that need no other package'
	@echo 'make clean         remove all of these'

demo: all
	@build/eyelet caption --model demo --show --temperature 0 examples/*.png examples/*.jpg
	@echo
	@echo 'Try next:'
	@echo '  build/eyelet ask examples/shapes-5.png "How many shapes are there?"'
	@echo "  build/eyelet detect examples/shapes-3.png heart --draw boxes.png"
	@echo '  build/eyelet chat examples/both-1.png'

install: setup-install all
	@$(NINJA) -C build manual
	@cmake --install build --prefix '$(PREFIX)' >/dev/null

deb: setup-packages build-deb/build.ninja
	$(call set_archs,build-deb)
	@$(NINJA) -C build-deb all manual
	@cd build-deb && cpack --config CPackConfig.cmake -B ../dist >/dev/null
	@rm -rf dist/_CPack_Packages
	@lintian --allow-root --fail-on error,warning dist/*.deb
	@ls dist/*.deb

# The program and its kernels are the portable build's. The library uses Debian's shared libraries, because not all .a
# files are PIC.
wheel: setup-wheel portable build-wheel/build.ninja
	$(call set_archs,build-wheel)
	@$(NINJA) -C build-wheel libeyelet
	@bindings/python/build_wheel.py dist/eyelet-*-linux-x86_64 build-wheel/libeyelet.so.0 dist
	@bindings/python/check_wheel.sh dist

check: setup-style
	@tools/check_style.sh
	@tests/style/run.sh

# The emulated GPU takes longer than all other tests, so it runs only if its inputs have changed since its stamp. The
# longest goldens of the reference backend follow the same stamp; its other goldens, and all on the CPU, always run.
ifdef T
test: all
	@case "$$(ctest --test-dir build -N -L emulated -R '$(T)')" in *'Total Tests: 0'*) ;; *) $(NINJA) -C build emulated ;; esac
	@tools/run_tests.sh build -R '$(T)'
else
test: all
	@if [ -z "$$EY_ALL_TESTS" ] && tools/stamp.sh check emulated; then tools/run_tests.sh build -LE "emulated|reference"; else \
	  $(NINJA) -C build emulated && tools/run_tests.sh build && tools/stamp.sh write emulated; fi
endif

emulated: all
	@$(NINJA) -C build emulated
	@tools/run_tests.sh build -L 'emulated|reference' && tools/stamp.sh write emulated

test-clients: setup-clients all
	@tools/run_node_tests.sh tests/clients build/eyelet

test-ui: setup-ui all
	@tools/run_node_tests.sh tests/ui build/eyelet

test-python: setup-python all
	@bindings/python/run_tests.sh build/libeyelet.so.0 -m 'not long'

test-packages: setup-packages all
	@$(NINJA) -C build manual
	@tests/packages/run.sh build

load: all
	@build/tests/load/load build/eyelet

bench-serve: all
	@build/bench/bench_serve

test-abuse: all
	@tests/abuse/run.sh build/eyelet

nightly:
	@tools/nightly.sh $(PART)

asan: setup build-asan/build.ninja
	@$(NINJA) -C build-asan all emulated
	@tools/run_tests.sh build-asan -E '$(SLOW)'

# The quick targets build only the programs of their tests. CI builds them in the background.
asan-quick-build: setup build-asan/build.ninja
	@$(NINJA) -C build-asan eyelet eyelet-decode libeyelet $$(tools/test_programs.sh build-asan -R '$(DOORS)' -LE emulated)
asan-quick: asan-quick-build
	@tools/run_tests.sh build-asan -R '$(DOORS)' -LE emulated

tsan: setup build-tsan/build.ninja
	@$(NINJA) -C build-tsan
	@tools/run_tests.sh build-tsan -R '$(THREADS)' -E '$(SLOW)'

clang: setup-clang build-clang/build.ninja
	@$(NINJA) -C build-clang
	@tools/run_tests.sh build-clang -E '$(SLOW)$(LONG)'

clang-quick-build: setup-clang build-clang/build.ninja
	@$(NINJA) -C build-clang $$(tools/test_programs.sh build-clang -R '$(ARITHMETIC)')
clang-quick: clang-quick-build
	@tools/run_tests.sh build-clang -R '$(ARITHMETIC)'

kernels:
	@tools/compile_kernels.sh

fuzz: setup-clang build-fuzz/build.ninja
	@$(NINJA) -C build-fuzz
	@tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

portable: setup-portable build-portable/build.ninja
	$(call set_archs,build-portable)
	@$(NINJA) -C build-portable all manual
	@tools/portable.sh build-portable dist
	@tools/portable_check.sh dist

clean:
	rm -rf build build-asan build-tsan build-clang build-fuzz build-portable build-wheel build-deb build-abi dist

setup:
	@tools/setup.sh
setup-clang:
	@tools/setup.sh clang
setup-style:
	@tools/setup.sh style
setup-portable:
	@tools/setup.sh portable
setup-clients:
	@tools/setup.sh node clients
setup-ui:
	@tools/setup.sh node ui
setup-install:
	@tools/setup.sh install
setup-packages:
	@tools/setup.sh install packages
setup-python:
	@tools/setup.sh python
setup-wheel:
	@tools/setup.sh portable wheel

# Build folders are configured once; Ninja reconfigures them when a CMake file changes.
build/build.ninja: | setup
	@$(CMAKE) -B build >/dev/null
build-asan/build.ninja: | setup
	@$(CMAKE) -B build-asan $(SANITIZED)=address,undefined >/dev/null
build-tsan/build.ninja: | setup
	@$(CMAKE) -B build-tsan $(SANITIZED)=thread -DEY_EMULATED=OFF >/dev/null
build-clang/build.ninja: | setup-clang
	@$(CMAKE) -B build-clang -DCMAKE_C_COMPILER=clang -DEY_EMULATED=OFF -DEY_GOLDEN_STEP=5 >/dev/null
build-fuzz/build.ninja: | setup-clang
	@$(CMAKE) -B build-fuzz -DCMAKE_C_COMPILER=clang $(SANITIZED)=address,undefined -DEY_FUZZ=ON -DEY_EMULATED=OFF >/dev/null
build-portable/build.ninja: | setup-portable
	@$(CMAKE) -B build-portable -DEY_STATIC_LIBS=ON -DEY_TESTS=OFF -DEY_CUDA_ARCHS='$(CUDA_ARCHS)' >/dev/null
build-wheel/build.ninja: | setup-wheel portable
	@$(CMAKE) -B build-wheel -DEY_TESTS=OFF -DEY_CUDA_ARCHS='$(CUDA_ARCHS)' \
	  -DEY_CUDA_FATBINS=$(CURDIR)/build-portable/src/kernels/cuda >/dev/null
build-deb/build.ninja: | setup-packages
	@$(CMAKE) -B build-deb -DEY_TESTS=OFF -DEY_CUDA_ARCHS='$(CUDA_ARCHS)' >/dev/null
