# Everything that is done with this repository, by name. Continuous integration calls these and nothing else.

GO      ?= go
QEMU    ?= qemu-aarch64
FUZZTIME ?= 20s
BENCH   ?= .

# What the program calls itself: the nearest tag and the commits since, where this is a git checkout. Elsewhere the program
# finds out by itself, from what git archive wrote into cmd/internal/cli/archive.txt; VERSION=v1.2.3 overrules
# both.
VERSION ?= $(if $(wildcard .git),$(shell git describe --tags --match 'v*' --always --dirty=+dirty 2>/dev/null))
PROGRAM ?= pilotfish
MODULE   = github.com/pilotfish-ai/pilotfish
# The package that knows its version.
CLI      = $(MODULE)/cmd/internal/cli
STAMPED  = -s -w$(if $(VERSION), -X $(CLI).version=$(VERSION))

# The program is pure Go. Only the race detector needs a C compiler.
export CGO_ENABLED = 0

# Each place where the program must run.
SYSTEMS = linux/amd64 linux/arm64 darwin/arm64 darwin/amd64 windows/amd64 windows/arm64
# What make lint vets besides all packages for linux/amd64: for a system, with tags, the packages that have files for
# some systems or tags only. Each file is part of one; make cross compiles the other systems.
VETTED  = linux/arm64 darwin/arm64 windows/amd64 linux/amd64/noasm,nosoft,live,real,clients,terminal,seeded
# What make cross compiles for other systems than Linux is not optimised, in two thirds of the time: what the compiler
# does with it depends on the processor alone, and Linux compiles it for both.
QUICKLY = -gcflags='all=-N -l -dwarf=false'
# Packages with assembly or arithmetic that depends on the machine, for the tests under an emulator, the longest first.
ARM64   = ./runtime/backend/host ./kernels/cpu/... ./gguf/block ./runtime/sample
# The C library of arm64, for what calls C there.
ARM64LIBC ?= /usr/aarch64-linux-gnu
# Packages that compute differently without assembly, and what the engine above them is tried with then.
PLAIN   = ./kernels/cpu/... ./runtime/backend/host ./runtime/transformer
PLAINLY = ^Test(GreedyIsArgmax|Exact|Reuse|Lookup|Routed|Read)$$
# How many mistakes make mutants plants in each package; 0: all.
N ?= 60

# Where make worlds puts the files of Go's runtime that it changes.
SEEDED ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pilotfish/seeded

# Where make opencl installs Intel's runtime.
OPENCLDIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pilotfish/opencl

# Packages tested at a time: more than the two cores of a small machine, as some wait more than they compute.
ABREAST = 3
# Packages with files, tests included, that start goroutines, or give work to those of another package; and vector, as
# the race detector checks pointers too. The programs of docs/examples are run by their tests, and built without it. The
# gate leaves out those that EXCEPT names.
RACED   = $(filter-out ./docs/examples% $(EXCEPT),$(shell grep -rlE '^[[:space:]]*go |\.Go[^[:alnum:], ]|\bpool\.New\b|t\.Parallel\b' \
	--include='*.go' . | xargs -n 1 dirname | sort -u)) ./kernels/cpu/vector ./runtime/backend/gpu
# Packages that compute for one caller, or in the goroutines of kernels/cpu/pool; and the engine that tests ask.
COMPUTES = kernels/cpu kernels/cpu/vector gguf/block runtime/backend/host bench/synth internal/fakeengine
# A program that the detector found nothing in ends at once, and not after a second; pointers are checked in our code.
RACE     = GORACE=atexit_sleep_ms=0 $(GO) test -race -short -vet=off -p $(ABREAST) -gcflags=std=-d=checkptr=0

.PHONY: help build generate test long race fuzz mutants verified branches misuse schedules stories opencl bench \
	maskbench matrix results study peers real lint cross arm64 upstream metal deploy clients agents load terminal man worlds \
	real-check

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## both programs, ./pilotfish and ./pilotfish-bench, without symbols for debuggers, with their version stamped
	$(GO) build -trimpath -ldflags '$(STAMPED)' -o $(PROGRAM) ./cmd/pilotfish
	$(GO) build -trimpath -ldflags '$(STAMPED)' -o $(PROGRAM)-bench ./cmd/pilotfish-bench

# Tests take small samples; make long takes whole ones.
SHORT = -short

# None of the tests vets again what make lint vets, tests included.
test: ## all tests, of random inputs a few, with assembly and without; needs nothing but Go (for the GPU's kernels clang-19 and lld-19), and lists what had to be left out
	$(GO) run ./internal/cmd/gotest $(SHORT) -vet=off -p=$(ABREAST) ./...
	$(GO) test -short -vet=off -p $(ABREAST) -tags noasm $(PLAIN)
	$(GO) test -short -vet=off -tags noasm -run '$(PLAINLY)' ./runtime/engine

long: SHORT =
long: test ## as make test, with all random inputs and studies: before a release, after a change of kernels or of how tokens are decided

# Beyond its own tests, what computes is compiled without the detector's calls, as these would be a third of all work.
race: ## tests of what runs in parallel, under the race detector; needs a C compiler
	CGO_ENABLED=1 $(RACE) $(filter $(COMPUTES:%=./%),$(RACED))
	CGO_ENABLED=1 $(RACE) $(COMPUTES:%=-gcflags=$(MODULE)/%=-race=false) \
		-gcflags=math/rand/v2=-race=false $(filter-out $(COMPUTES:%=./%),$(RACED))

fuzz: ## every fuzz target for FUZZTIME (20s) each; GUIDED=no: with random inputs, as compiling for others takes minutes
	GO="$(GO)" GUIDED="$(or $(GUIDED),yes)" internal/cmd/fuzz.sh $(FUZZTIME)

# Without -count=1 a cached run would measure the coverage, and every mutant would seem to take too long.
mutants: ## N (60) small mistakes planted in each package of PKG (./runtime/draft), one after the other: those that its tests do not find; MATRIX=1: what each test finds by itself
	@test -n "$(PKG)" || { echo "name the packages whose tests are tried: make mutants PKG=./runtime/draft"; exit 2; }
	$(GO) run ./internal/cmd/mutants -n $(N) $(if $(SHORT),-short) $(if $(MATRIX),-matrix) $(PKG)

verified: ## the large model's own text from verification: all held-out questions of the demo, 200 stories, poor links
	$(GO) test ./bench/routing -run 'TestVerifiedIsTheLargeModel' -timeout 30m -v -verified-texts 400

branches: ## as many branches as are worth their price, in every cell of the matrix of row costs and round trips
	$(GO) test ./bench/routing -run 'TestBranchesByPrice' -timeout 30m -v -branch-cells -branch-questions 100

misuse: ## a thousand models closed, cancelled and used in wrong ways at every stage, under the race detector
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 60m -v ./bench/misuse -misuse.rounds $(or $(ROUNDS),1000)

schedules: ## random schedules of every property of routed decoding, BATCHES (48) of up to 500 each
	$(GO) test ./runtime/draft -timeout 60m -batches $(or $(BATCHES),48)

worlds: ## devices, links, a gateway and its engine in virtual time, with random faults, for SECONDS (60), from SEED on; or WORLD again
	PILOTFISH_WORLDS="$(or $(SECONDS),60) $(SEED)" PILOTFISH_WORLD='$(WORLD)' $(GO) test ./netproto/client -count=1 \
		-timeout 0 -v -run '^Test($(if $(WORLD),World,Worlds|Replay))$$' \
		-tags seeded -overlay "$$($(GO) run ./internal/cmd/seeded "$$($(GO) env GOROOT)" $(SEEDED))"

stories: ## a router for the models that write stories, trained and compared with the other policies in closed loop
	$(GO) test ./bench/routing -run TestStoryClosedLoop -timeout 30m -v -closed-stories

# A second opinion on the kernels: another compiler, another order of threads, for all tests but those that need what only
# the software device has. Debian's pip puts libraries into local/lib.
opencl: ## the GPU's kernels through Intel's OpenCL on Linux x86-64; needs clang-19, python3 with pip, and 270 MB from PyPI once
	@mkdir -p "$(OPENCLDIR)"; find "$(OPENCLDIR)" -name libintelocl.so | grep -q . || \
		python3 -m pip install --quiet --no-warn-script-location --ignore-installed --prefix "$(OPENCLDIR)" \
		'intel-opencl-rt==2026.2.*' 'intel-cmplr-lib-rt==2026.2.*'
	@set -e; export PILOTFISH_OPENCL="$$(find "$(OPENCLDIR)" -name libintelocl.so)"; echo "$$PILOTFISH_OPENCL"; \
	$(GO) test -count=1 -vet=off -timeout 60m ./runtime/backend/gpu

bench: ## benchmarks that match BENCH (all)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

# The schemas: maskbench/data of https://github.com/guidance-ai/jsonschemabench. MODEL is any GGUF file with a vocabulary.
maskbench: ## grammars of the real JSON schemas of MaskBench in DATA with the vocabulary of MODEL; SAMPLE=N takes N of them
	@test -n "$(DATA)" -a -n "$(MODEL)" || { echo "name both: make maskbench DATA=FOLDER MODEL=FILE.gguf"; exit 2; }
	$(GO) run ./bench/maskbench -m $(MODEL) $(if $(SAMPLE),-sample $(SAMPLE)) $(DATA)

MATRIX = --rtt 50,100,200,300ms --edge-tps 60 --cloud-ms 40 --deadline off --ahead 8 --questions 48 \
	--modes local,cloud,paper,speculative-8,overlapped-8,serial,pipelined-1,pipelined-2,pipelined-4,pipelined-8,pipelined-auto,verified

matrix: ## modes of routing over round trips of 50 to 300 ms with the demo's pair, as JSON lines where OUT names a file
	$(GO) run ./cmd/pilotfish-bench routing $(MATRIX) $(if $(OUT),--json >$(OUT))

results: ## tables and figures of README.md and docs/study/results.md, from the measurements in docs/results
	$(GO) run ./bench/results

# go run ./bench/results adopt FOLDER puts a study into docs/results.
study: ## measures what these show anew on this machine, into OUT (study), and says what differs; on a quiet machine
	sh bench/results/study.sh $(if $(OUT),$(OUT),study)

# Where make peers installs llama.cpp.
PEERSDIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pilotfish/peers

peers: build ## a table of our speed beside llama.cpp's for model FILES, with BUSY (0,2,4) processes beside; needs node and npm, and a network once
	@test -n "$(FILES)" || { echo "name model files: make peers FILES=model.gguf"; exit 2; }
	@test -d "$(PEERSDIR)/node_modules/node-llama-cpp" || npm install --silent --prefix "$(PEERSDIR)" node-llama-cpp@3.21.1
	$(GO) run ./bench/peers -npm "$(PEERSDIR)" -busy $(or $(BUSY),0,2,4) $(FILES)

# What is measured already is not measured again: the same command goes on. go run ./bench/results adopt FOLDER as above.
real: ## trains and measures the judge of the real models in MODELS, into OUT (real); takes hours, on a quiet machine
	@test -n "$(MODELS)" || { echo "make real MODELS=FOLDER: see docs/study/reproducing.md"; exit 2; }
	$(MAKE) build PROGRAM=$(if $(OUT),$(OUT),real)/pilotfish
	$(MAKE) -f bench/results/real.mk OUT=$(abspath $(if $(OUT),$(OUT),real)) MODELS=$(abspath $(MODELS))

# internal/cmd/vet reads what go vet compiles, so that a system costs seconds and not minutes.
lint: ## gofmt, vet of every file on some machine, staticcheck, and the order of imports
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "gofmt would change:"; echo "$$bad"; exit 1; fi
	@set -e; dir=$$(mktemp -d); trap 'rm -r $$dir' EXIT; $(GO) build -o $$dir/vet ./internal/cmd/vet; \
	vet() { system=$$1; shift; echo "vet for $$system"; tags=$${system#*/*/}; [ "$$tags" != "$$system" ] || tags=; \
		GOOS=$${system%%/*} GOARCH=$$(echo $$system | cut -d / -f 2) GOFLAGS="$$GOFLAGS -tags=$$tags" $$dir/vet "$$@"; }; \
	varied=$$($(GO) list -f '{{if or .IgnoredGoFiles .IgnoredOtherFiles}}{{.ImportPath}}{{end}}' ./...); \
	vet linux/amd64 ./...; for s in $(VETTED); do vet $$s $$varied ./cmd/pilotfish ./cmd/pilotfish-bench; done; \
	vet darwin/arm64/cgo ./metal/mtl; vet linux/386 ./gguf/...
	$(GO) tool staticcheck ./...
	$(GO) test ./internal/layering
	cd kernels/cpu/_asm && $(GO) vet . && $(GO) run . -check ..

generate: ## the assembly, stubs and table rows of kernels/cpu that kernels/cpu/_asm describes
	cd kernels/cpu/_asm && $(GO) run . ..

# The unit names the program where it will be installed; here it is the one that was built.
deploy: build ## the files of docs/operate/deploy, with systemd's and Docker's own checks where there are any
	@set -e; dir=$$(mktemp -d); trap 'rm -r $$dir' EXIT; \
	if command -v systemd-analyze >/dev/null; then echo "systemd-analyze verify pilotfish-cloud.service"; \
		sed "s|/usr/local/bin/pilotfish|$$PWD/pilotfish|" docs/operate/deploy/pilotfish-cloud.service \
			>$$dir/pilotfish-cloud.service; \
		systemd-analyze verify $$dir/pilotfish-cloud.service; \
	else echo "*** LEFT OUT: the unit, which needs systemd-analyze ***"; fi; \
	if docker compose version >/dev/null 2>&1; then echo "docker compose config"; \
		GGUF=./large.gguf TOKENS=./tokens docker compose -f docs/operate/deploy/compose.yaml config --quiet; \
	else echo "*** LEFT OUT: the compose file, which needs docker compose ***"; fi; \
	if docker buildx version >/dev/null 2>&1; then echo "docker build --check"; \
		docker build --check -f docs/operate/deploy/Dockerfile .; \
	else echo "*** LEFT OUT: the Dockerfile, which needs docker buildx ***"; fi

cross: ## builds the programs for every system that they run on
	@set -e; for s in $(SYSTEMS); do echo "programs for $$s"; \
		case $$s in linux/*) set -- ;; *) set -- $(QUICKLY) ;; esac; \
		for p in pilotfish pilotfish-bench; do \
			GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) build "$$@" -ldflags=-w -o /dev/null ./cmd/$$p; done; done

# Of metal/mtl, which calls C, those tests that compile no kernels.
arm64: ## tests of the arm64 assembly on another machine; needs qemu-user
	@[ -e $(ARM64LIBC)/lib/libc.so.6 ] || echo "*** LEFT OUT: ./metal/mtl on arm64, which needs libc6-arm64-cross ***"
	GOARCH=arm64 $(GO) test -short -vet=off -exec '$(QEMU) -L $(ARM64LIBC)' \
		-skip '^TestSoft([A-Z]|$$)|SameAsSoft|^TestModel' \
		$(ARM64) $(if $(wildcard $(ARM64LIBC)/lib/libc.so.6),./metal/mtl)

# The engine serves bench/demo/large.gguf, or the folder that bench/hf/convert.py makes of it.
upstream: ## end-to-end tests against a live inference engine at URL; docs/operate/engines.md says how to get one
	@test -n "$(URL)" || { echo "name the engine: make upstream URL=http://127.0.0.1:8080"; exit 2; }
	PILOTFISH_UPSTREAM=$(URL) $(GO) test -tags live -count=1 -timeout 30m -v -run Live ./bench/routing

# What is expected of them, bench/real/reference.py wrote.
real-check: ## two real Qwen2.5 models in the folder MODELS against other programs' results, and routed over a link; minutes
	@test -d "$(MODELS)" || { echo "MODELS=$(MODELS) is no folder: name the one with the models of bench/real/reference.py: \
	make real-check MODELS=FOLDER"; exit 2; }
	PILOTFISH_REAL_MODELS="$(abspath $(MODELS))" $(GO) test -tags real -count=1 -timeout 60m -v -run '^TestReal' ./bench/routing

clients: ## the official clients of OpenAI and Anthropic for Python, Node and Go against serve; needs python3, npm and a network for what is missing
	$(GO) test -tags clients -count=1 -timeout 20m -v -run 'TestClients|TestConvert' ./bench/clients ./bench/hf

# With AGENTS=FOLDER it looks there for installed agents first.
agents: ## Claude Code, Codex, opencode, Qwen Code and aider edit a file each through pilotfish launch; needs python3, npm and a network for what is missing
	$(GO) test -tags clients -count=1 -timeout 20m -v -run TestAgents ./serve

# With MODEL=FILE against that model; CONNECTIONS, SECONDS and TOKENS say how much.
load: ## serve under requests of all kinds on CONNECTIONS (64) for SECONDS (30): nothing lost, memory bounded, times of answers
	PILOTFISH_LOAD="$(or $(CONNECTIONS),64) $(or $(SECONDS),30) $(or $(TOKENS),32) $(MODEL)" \
		$(GO) test -tags clients -count=1 -timeout 0 -v -run TestLoad ./bench/clients

# The program does not link what makes them: a test does.
man: ## man pages of all commands, into the folder man
	PILOTFISH_MAN=$(CURDIR)/man $(GO) test -count=1 -run '^TestManPages$$' ./cmd/pilotfish ./cmd/pilotfish-bench

terminal: ## the chat in a real terminal: keys, history, resize, UTF-8, paste, Ctrl-C; needs tmux
	$(GO) test -tags terminal -count=1 -v -run '^TestTmux' ./cmd/pilotfish/internal/chat

# Metal 3.1 is that of macOS 14, the oldest that the program runs kernels on. Warnings are shown.
metal: ## the GPU's kernels through Apple's compiler; needs a Mac with Xcode
	@set -e; dir=$$(mktemp -d); trap 'rm -r $$dir' EXIT; $(GO) run ./kernels/metalsource $$dir; \
	for f in $$dir/*.metal; do echo "xcrun metal $$(basename $$f)"; xcrun metal -std=metal3.1 -Wall -c $$f -o /dev/null; done
