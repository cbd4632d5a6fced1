# dynprof: see README.md. `make` builds, `make demo` shows, `make test` tests.
SHELL := /bin/bash -eo pipefail
GO    ?= go
BUILD := build
.DELETE_ON_ERROR: # a library that has not passed its checks is none

# goinit.ld keeps the Go runtime's start entry out of DT_INIT_ARRAY;
# initfirst runs our constructor before every other. A path may hold spaces.
EXTLD := \"-Wl,-T,$(CURDIR)/libdynprof/goinit.ld\" \
	\"-Wl,--version-script=$(CURDIR)/libdynprof/exports.map\" \
	-Wl,-e,dp_planner_start -Wl,-z,initfirst -Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now \
	-Wl,--wrap=pthread_create -Wl,--wrap=malloc -Wl,--wrap=free \
	-Wl,--wrap=pthread_getattr_np -Wl,--wrap=pthread_attr_getstacksize \
	-Wl,--wrap=pthread_mutex_lock -Wl,--wrap=pthread_mutex_unlock \
	-Wl,--wrap=pthread_cond_wait -Wl,--wrap=pthread_cond_broadcast \
	-Wl,--wrap=mmap -Wl,--wrap=munmap -Wl,--wrap=sigaction -Wl,--wrap=pthread_sigmask \
	-Wl,--wrap=sigemptyset -Wl,--wrap=sigfillset -Wl,--wrap=sigaddset -Wl,--wrap=sigismember \
	-Wl,--wrap=pthread_attr_init -Wl,--wrap=pthread_attr_destroy -Wl,--wrap=pthread_attr_setdetachstate \
	-Wl,--wrap=pthread_attr_setstack -Wl,--wrap=pthread_attr_getstack \
	-Wl,--wrap=pthread_self -Wl,--wrap=pthread_detach \
	-Wl,--wrap=pthread_key_create -Wl,--wrap=pthread_setspecific

.PHONY: all help demo check test deps lint lint-c unit cover long duckdb random fuzz oracles oracles-quick prometheus bench bench-quick bench-compare bench-docs bench-startup bench-threads bench-making man pictures install uninstall deb try-package tarball examples bench-hot clean
all: $(BUILD)/libdynprof.so $(BUILD)/hotspots ## build/libdynprof.so and build/hotspots

GOFILES := $(shell find . -name '*.go' -not -name '*_test.go' -not -path './build/*')
CFILES  := $(wildcard libdynprof/*.[chS] libdynprof/*.ld libdynprof/*.map)
SFILES  := $(shell find cmd -name '*.s')
ASSETS  := $(shell find cmd/hotspots/internal/web/assets -type f)

# The resident part, all that runs on the target's threads: compiled without cgo, and
# linked into one object, which package main of libdynprof/ is linked with as with any
# .syso of its folder. Go looks for changes in that folder only, so that the object
# names the headers that cgo reads, too, in a section that no linker takes.
RESIDENT := $(sort $(wildcard libdynprof/resident/*/*.[cS]))
HEADERS  := $(sort $(wildcard libdynprof/resident/*/*.h))
PARTS    := $(RESIDENT:libdynprof/%=$(BUILD)/%.o)
OBJECT   := libdynprof/resident_linux_amd64.syso
INTERFACE := libdynprof/resident/interface.sym
RESCC    := $(CC) -O2 -fPIC -mgeneral-regs-only -Wall -Wextra -Werror -Ilibdynprof/resident

$(BUILD)/resident/%.o: libdynprof/resident/% Makefile
	@mkdir -p $(@D)
	@$(RESCC) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

$(OBJECT): $(PARTS) $(HEADERS) $(INTERFACE)
	@$(LD) -r -o $(BUILD)/resident.o $(PARTS)
	@sha256sum $(HEADERS) >$(BUILD)/resident.headers
	objcopy --keep-global-symbols=$(INTERFACE) --add-section .headers=$(BUILD)/resident.headers --set-section-flags .headers=exclude $(BUILD)/resident.o $@

-include $(PARTS:.o=.d)

$(BUILD)/libdynprof.so: $(GOFILES) $(CFILES) $(OBJECT) go.mod go.sum
	@rm -f $@ # go build does not know that the linker script is read
	@mkdir -p $(BUILD)
	CGO_ENABLED=1 CGO_CFLAGS="-O2" $(GO) build -trimpath -buildmode=c-shared \
		-ldflags "-s -w -extldflags '$(EXTLD)'" -o $@ ./libdynprof
	@$(GO) run ./internal/lazyrela $@
	@rm -f $(BUILD)/libdynprof.h
	@cp libdynprof/dynprof.h libdynprof/dynprof_trace.h libdynprof/memtr.h $(BUILD)/
	@$(GO) run ./internal/checklib $@

# The command carries the library: copying this one file is an installation.
# What starts programs before the Go runtime (-tags early) is told the library's sum and
# size, and names a variable of the runtime, which the linker lets nobody do unasked.
# Its entry point notes which signals were ignored before the Go runtime
# replaces them (cmd/hotspots/internal/launch). Go's FIPS module since has a variable
# of 32 MB, without which the kernel does not execute it under ulimit -d; nobody here
# asks for FIPS mode (cmd/hotspots/main.go).
LAUNCH := github.com/dynprof/dynprof/cmd/hotspots/internal/launch
$(BUILD)/hotspots: $(BUILD)/libdynprof.so cmd/hotspots/embed/known cmd/hotspots/embed/resident.so $(SFILES) $(ASSETS)
	cp $< cmd/hotspots/embed/libdynprof.so
	sha256sum < $< | cut -d" " -f1 > cmd/hotspots/embed/libdynprof.so.sha256
	CGO_ENABLED=0 GOFIPS140=v1.0.0 $(GO) build -trimpath -tags early -ldflags "-s -w -checklinkname=0 -E hotspots_early_entry -X $(LAUNCH).carried=$$(cat cmd/hotspots/embed/libdynprof.so.sha256)$$(stat -L -c %s $<)" -o $@ ./cmd/hotspots
	@$(GO) run ./internal/checklib $@

# The very code that the library is linked with, by itself: hotspots attach brings it into
# processes. It can lie anywhere, and needs nothing of anybody.
cmd/hotspots/embed/resident.so: $(OBJECT) Makefile
	$(LD) -shared -Bsymbolic -z text -z noexecstack -z separate-code -z max-page-size=4096 --build-id=none --no-undefined -o $@ $<

# The program of hotspots selftest. Its calls are as its source says, so that nothing may
# be inlined, merged or left out; glibc 2.34 is enough for it, as for the library.
cmd/hotspots/embed/known: cmd/hotspots/selftest/known.c Makefile
	$(CC) -O1 -fno-inline -fno-optimize-sibling-calls -fno-ipa-icf -fno-ipa-pure-const -falign-functions=16 -Wall -Wextra -Werror -o $@ $<

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed 's/:.*## /\t/' | expand -t 15

# What a user gets: a real program of Debian, unmodified, counted.
DEMO := my %n; for my $$i (1..200000) { $$n{$$i % 997} .= chr(65 + $$i % 26) } \
	print length(join "", map { $$n{$$_} } sort keys %n), " characters sorted\n";
demo: all ## the main job on a real program: Debian's perl, counted
	@echo "Counting every call of every function of $$(command -v perl), as Debian ships it:"
	$(BUILD)/hotspots run --summary 15 -- perl -e '$(DEMO)'

# Translators (examples/README.md), in build/examples/. One whose compiler is not
# there is not built, and said; its test is skipped.
examples: $(addprefix $(BUILD)/examples/,avx2.so specialise.so packets go.so rust.so) ## the example translators

EXAMPLE := -O2 -Wall -Wextra -Werror -Ilibdynprof
WITHOUT  = echo "examples: no $(1): $@ is not built" >&2

$(BUILD)/examples/avx2.so: examples/avx2/gf16.c libdynprof/dynprof.h
	@mkdir -p $(@D)
	$(CC) $(EXAMPLE) -shared -fPIC -o $@ $<

$(BUILD)/examples/specialise.so: $(addprefix examples/specialise/,specialise.c bpf.c bpf.h tcc_pie.c) libdynprof/dynprof.h
	@mkdir -p $(@D)
	@if [ ! -e /usr/include/libtcc.h ]; then $(call WITHOUT,libtcc-dev); else set -x; \
	$(CC) $(EXAMPLE) -shared -fPIC -o $@ $(filter examples/%.c,$^) -ltcc \
		-Wl,--exclude-libs,ALL,--wrap=stdout,--wrap=stderr,--wrap=environ; fi

$(BUILD)/examples/packets: examples/specialise/packets.c
	@mkdir -p $(@D)
	$(CC) $(EXAMPLE) -o $@ $<

$(BUILD)/examples/go.so: $(wildcard examples/go/*.go examples/go/go.*) libdynprof/dynprof.h
	CGO_ENABLED=1 $(GO) build -C examples/go -trimpath -buildmode=c-shared -ldflags "-s -w" -o "$(CURDIR)/$@" .
	@rm -f $(@:.so=.h)

$(BUILD)/examples/rust.so: examples/rust/tiers.rs
	@mkdir -p $(@D)
	@if ! command -v rustc >/dev/null; then $(call WITHOUT,rustc); else set -x; \
	rustc --edition 2021 -D warnings -C opt-level=2 --crate-type cdylib -o $@ $<; fi

# While you work: lint, the tests of all packages, and the end-to-end tests that
# most changes would break.
CHECK := Fences|Imports|TestPrograms/(lua|perl|sqlite)|TestExactThreads/(many|churn)|TestExactCallgrind/C_gcc|TestCanary$$|TestLate$$|TestForks|TestTransparentSignals|TestServe$$
check: all lint ## the fast lane: lint, all packages, a handful of end-to-end tests (2 minutes)
	$(GO) tool -modfile=tools/go.mod gotestsum --format pkgname -- -count=1 $$($(GO) list ./... | grep -v '/test$$')
	$(GO) tool -modfile=tools/go.mod gotestsum --format pkgname -- -count=1 -run '$(CHECK)' ./test

# Lint and fuzzing look for what a machine at hand does not change: .ci/run has them beside
# this, make check the former.
test: deps all unit ## what every commit passes: deps, unit (6 minutes on 2 cores)

deps: ## install what the tests need and this machine lacks
	@scripts/deps.sh

lint: ## gofmt, vet, staticcheck, and the C (lint-c)
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "lint: run gofmt" >&2; exit 1; }
	$(GO) vet -tags long ./...
	$(GO) vet -C bench/chart ./...
	$(GO) vet -C examples/go ./...
	$(GO) tool -modfile=tools/go.mod staticcheck -tags long ./...
	@$(MAKE) --no-print-directory -j$$(nproc) lint-c

# The resident part under gcc's analyser; internal/checkobj says what must hold of
# the object and of its parts, the very ones that are linked. FOLDERS: who may need
# whom. VECTORS: who saves and clears them, or reads one. cppcheck reads all C as a whole.
FOLDERS := base rows table stubs texts events api signals sites plans warm attach
VECTORS := dp_keeper dp_on_stack dp_on_stack_over dp_store_vector dp_mask_word dp_mask_quad

# The rest of the C, which cgo compiles, goes one way, too, but for ONE, a file in C and
# its beginning in assembly.
SHIM := $(patsubst libdynprof/%,$(BUILD)/shim/%.o,$(sort $(wildcard libdynprof/*.[cS])))
ONE  := plugin.c entry.S

$(BUILD)/shim/_cgo_export.h: Makefile
	@mkdir -p $(@D)
	@echo 'void dp_plan(unsigned long); void dp_agent(unsigned long); void dp_save(void);' >$@

$(BUILD)/shim/%.o: libdynprof/% $(BUILD)/shim/_cgo_export.h $(HEADERS) $(wildcard libdynprof/*.h)
	@$(CC) -O1 -fPIC -Wall -Wextra -Werror -Ilibdynprof/resident -I$(BUILD)/shim -c -o $@ $<

$(BUILD)/lint/%.ok: libdynprof/resident/% $(HEADERS) Makefile
	@mkdir -p $(@D)
	@$(RESCC) -fanalyzer -c -o /dev/null $<
	@touch $@

empty :=
space := $(empty) $(empty)
comma := ,
list = $(subst $(space),$(comma),$(strip $(1)))
lint-c: $(OBJECT) $(SHIM) $(RESIDENT:libdynprof/resident/%=$(BUILD)/lint/%.ok)
	@$(GO) run ./internal/checkobj -interface $(INTERFACE) -vectors $(call list,$(VECTORS)) -order $(call list,$(FOLDERS)) $(OBJECT) $(PARTS)
	@$(GO) run ./internal/checkobj -one $(call list,$(ONE:%=$(BUILD)/shim/%.o)) - $(SHIM)
	@if command -v cppcheck >/dev/null; then cppcheck -q --error-exitcode=1 --enable=warning,portability,performance --inline-suppr -Ilibdynprof/resident libdynprof; \
	else echo "lint: no cppcheck on this machine (make deps installs it)"; fi

# All Go tests, the end-to-end ones on build/ included, with the cases that fit into
# six minutes (internal/lane), more at once than there are CPUs, as many wait; make lint vets. Skips are listed by
# name, with their reason and their number, at the end, failures with their output.
unit: all examples ## all Go tests, the end-to-end ones included
	$(GO) tool -modfile=tools/go.mod gotestsum --format pkgname --jsonfile build/unit.json -- -count=1 -vet=off -parallel 4 -timeout 25m ./test ./...

# How much of what can be tested without running anything is: of each folder the least
# percentage of statements that its own packages' tests have to run.
COVER := patcher:85 stubgen:90 internal/table:85
cover: ## how much of planner, stubs and tables their tests run, and whether that is enough
	@mkdir -p $(BUILD)
	@for aim in $(COVER); do dir=$${aim%:*}; \
		$(GO) test -coverpkg=./$$dir/... -coverprofile=$(BUILD)/cover.out ./$$dir/... >$(BUILD)/cover.log || { cat $(BUILD)/cover.log; exit 1; }; \
		$(GO) tool cover -func=$(BUILD)/cover.out | awk -v dir=$$dir -v least=$${aim#*:} \
			'/^total:/ { printf "%s: %s of the statements; at least %d%% shall be\n", dir, $$3, least; exit $$3 + 0 < least }' || exit 1; \
	done

# Every case of every test of the packages with two lanes (the build tag long, internal/lane): also what
# takes too long for every change, storms and stress of threads and processes,
# servers of the distribution under load, and what needs more packages than make
# deps installs. The long form of the endpoint's tests is in make prometheus.
LANES := ./test ./internal/x86 ./internal/ptrace ./elfscan ./stubgen/translate ./cmd/hotspots/internal/attach
long: all examples duckdb ## every case of every test, and those that need more packages
	@scripts/deps.sh test long
	$(GO) tool -modfile=tools/go.mod gotestsum --format pkgname --jsonfile build/long.json -- -count=1 -vet=off -timeout 44m -tags long -skip '^TestPrometheus|^TestDeploy|^TestScale$$' $(LANES)

# Random programs for so many minutes, half of them csmith's, with seeds that
# nobody has seen (docs/oracles.md). DYNPROF_RANDOM_SEED=N repeats one.
MINUTES ?= 40
random: all ## random programs for MINUTES=40
	@scripts/deps.sh test long
	DYNPROF_RANDOM_MINUTES=$$(($(MINUTES) / 2)) nice -n 19 $(GO) test -tags long ./test -count=1 -timeout 0 -v -run '^TestRandom$$|^TestRandomCsmith$$'

# A number of inputs, not a time: at the end of a time go test now and then fails with
# "context deadline exceeded" on a busy machine.
FUZZTIME ?= 1000x
fuzz: ## every fuzz target for FUZZTIME=1000x, or a time
	@GO=$(GO) scripts/fuzz.sh $(FUZZTIME)

# Test suites that nobody here wrote, without and with the library: every test
# must have the same outcome (docs/oracles.md). oracles-quick is a part of them.
oracles: all ## the test suites of others, without and with (65 minutes)
	@scripts/deps.sh oracles
	$(GO) run ./oracles -time 90m

oracles-quick: all ## a part of them
	@scripts/deps.sh oracles
	$(GO) run ./oracles -quick -v -time 20m
	$(GO) run ./oracles -quick -v -time 10m -how blocks -part 1/16 -run '^(perl|coreutils)$$|^programs/openssl'

# What counting costs, beside other tools and beside what the machine allows
# (docs/benchmarks.md): the tables, and build/bench/figures.json.
bench: all ## what counting costs: docs/benchmarks.md (20 to 50 minutes)
	@scripts/deps.sh bench
	$(GO) run ./bench

bench-quick: all ## the same, less of it
	@scripts/deps.sh bench
	$(GO) run ./bench -quick -o $(BUILD)/bench-quick

# The last figures against those in docs/: what got slower is an error.
bench-compare: ## the last figures against those in docs/
	$(GO) run ./bench -compare docs/benchmarks.json $(BUILD)/bench/figures.json

# The last figures into docs/benchmarks.md, with charts.
bench-docs: ## the last figures into docs/
	$(GO) run ./bench -docs docs/benchmarks.md

# The long form of the tests with a real Prometheus and nginx, and a scrape of
# 1,000 tables; the short forms are in make test, where these are installed.
prometheus: all ## the endpoint with a real Prometheus and nginx
	@scripts/deps.sh prometheus
	$(GO) test -tags long -count=1 -timeout 14m -v -run 'Prometheus|Deploy|Scale' ./test

# The pictures of docs/web.md, by the tests that look at what is in them.
.PHONY: web-pictures
web-pictures: all ## the pictures of docs/web.md
	DYNPROF_PICTURES="$(CURDIR)/docs/img" $(GO) test ./test -count=1 -run 'TestWeb$$/^(program|crowd|memory)$$'

# DuckDB, which reads what hotspots export --format parquet writes: 70 MB, from npm.
duckdb: $(BUILD)/node_modules/@duckdb/node-api ## DuckDB, from npm, for a test of make long

$(BUILD)/node_modules/@duckdb/node-api:
	@if ! command -v npm >/dev/null; then echo "duckdb: no npm on this machine" >&2; else \
	npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix $(BUILD) @duckdb/node-api@1.5.6-r.1; fi

# Time added to the start of a trivial program and of one with 45,000 functions.
bench-startup: all ## time that a start takes
	$(GO) run ./bench -workload startup -tool '^dynprof$$' -o $(BUILD)/bench-startup

# A call by one thread and by two, with our stub and with an atomic counter.
bench-threads: all
	$(GO) run ./bench/threads

# What libraries, children and threads cost that are made while a program runs.
bench-making: all
	$(GO) run ./bench/making

# What a crossing costs, how soon new code runs, and how well hot functions are
# found, beside perf's samples of the same runs.
bench-hot: all
	$(GO) run ./bench/hot

# Manual pages and completion come from the tree of commands, which says --help, too.
man: all ## the manual, and completion for shells, in build/
	@rm -rf $(BUILD)/man $(BUILD)/completion
	$(BUILD)/hotspots man $(BUILD)/man
	@mkdir -p $(BUILD)/completion
	@for shell in bash zsh fish; do $(BUILD)/hotspots completion $$shell >$(BUILD)/completion/$$shell; done

# Pictures of real runs, by a terminal of their own; look at them.
SHOW = PATH="$(CURDIR)/$(BUILD):$$PATH" XDG_RUNTIME_DIR=$$(mktemp -d /tmp/XXX) $(GO) run ../../internal/picture
pictures: all ## the pictures of terminals in docs/img
	cd docs/img && $(SHOW) -o run.svg -size 80x40 "prompt() { printf '\033[1m\$$ %s\033[0m\n' \"\$$*\"; \"\$$@\"; }; prompt hotspots run --summary 6 -- lua5.4 queens.lua; prompt hotspots report --top 4 --filter '^lua_'; prompt hotspots coverage | cut -c1-80"
	cd docs/img && $(SHOW) -o top.svg -size 80x24 -keys '6s:q' "hotspots run -o t.dynprof --summary 0 -- lua5.4 queens.lua 9 400 >/dev/null & while [ ! -s t.dynprof ]; do sleep 0.1; done; hotspots top t.dynprof; kill %1; rm t.dynprof"

# Where things go; a packager changes them, and DESTDIR. UNITPREFIX is what units and the
# drop-in have in place of PREFIX.
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib/dynprof
SHARE   ?= $(PREFIX)/share
MAN     ?= $(SHARE)/man
DOC     ?= $(SHARE)/doc/dynprof
ZSH     ?= $(SHARE)/zsh/site-functions
UNITS   ?= $(PREFIX)/lib/systemd/system
UNITPREFIX ?= $(PREFIX)
FIXUNIT := sed -e 's,/usr/bin/,$(UNITPREFIX)/bin/,g' -e 's,/usr/lib/dynprof/,$(if $(filter $(PREFIX),$(UNITPREFIX)),$(LIBDIR),$(UNITPREFIX)/lib/dynprof)/,g'

install: man ## install below PREFIX=/usr/local, or DESTDIR=/elsewhere
	install -d $(addprefix "$(DESTDIR)",$(PREFIX)/bin $(LIBDIR) $(PREFIX)/include $(MAN)/man1 $(SHARE)/bash-completion/completions $(ZSH) $(SHARE)/fish/vendor_completions.d $(UNITS) $(DOC)/examples)
	install -m755 $(BUILD)/hotspots "$(DESTDIR)$(PREFIX)/bin/hotspots"
	install -m644 $(BUILD)/libdynprof.so "$(DESTDIR)$(LIBDIR)/libdynprof.so"
	install -m644 $(BUILD)/dynprof.h $(BUILD)/dynprof_trace.h $(BUILD)/memtr.h "$(DESTDIR)$(PREFIX)/include/"
	install -m644 $(BUILD)/man/*.1 "$(DESTDIR)$(MAN)/man1/"
	install -m644 $(BUILD)/completion/bash "$(DESTDIR)$(SHARE)/bash-completion/completions/hotspots"
	install -m644 $(BUILD)/completion/zsh "$(DESTDIR)$(ZSH)/_hotspots"
	install -m644 $(BUILD)/completion/fish "$(DESTDIR)$(SHARE)/fish/vendor_completions.d/hotspots.fish"
	for unit in dynprof-serve.service dynprof-serve.socket; do $(FIXUNIT) deploy/systemd/$$unit >"$(DESTDIR)$(UNITS)/$$unit"; chmod 644 "$(DESTDIR)$(UNITS)/$$unit"; done
	$(FIXUNIT) deploy/systemd/dynprof.conf >"$(DESTDIR)$(DOC)/examples/dynprof.conf"
	install -m644 README.md LICENSE "$(DESTDIR)$(DOC)/"
	install -m644 deploy/prometheus/*.yml deploy/grafana/dynprof.json "$(DESTDIR)$(DOC)/examples/"

uninstall: ## take away what make install has put below PREFIX or DESTDIR
	cd "$(DESTDIR)/" && rm -rf $(addprefix "$(DESTDIR)",$(PREFIX)/bin/hotspots $(LIBDIR) $(PREFIX)/include/dynprof.h $(PREFIX)/include/dynprof_trace.h $(PREFIX)/include/memtr.h $(SHARE)/bash-completion/completions/hotspots $(ZSH)/_hotspots $(SHARE)/fish/vendor_completions.d/hotspots.fish $(UNITS)/dynprof-serve.service $(UNITS)/dynprof-serve.socket $(DOC)) "$(DESTDIR)$(MAN)"/man1/hotspots.1 "$(DESTDIR)$(MAN)"/man1/hotspots-*.1

deb: all ## build/dynprof_VERSION_amd64.deb
	@scripts/package.sh deb

try-package: deb ## install, prove and remove the package in a new, minimal Debian, as root (4 minutes)
	@scripts/deps.sh package
	@! lintian --fail-on error,warning $(BUILD)/dynprof_*_amd64.deb 2>&1 | grep '^[EW]:'
	@scripts/try-package.sh

tarball: all ## build/dynprof-VERSION-linux-amd64.tar.gz
	@scripts/package.sh tar

clean: ## remove build/
	rm -rf $(BUILD) cmd/hotspots/embed/libdynprof.so* cmd/hotspots/embed/known cmd/hotspots/embed/resident.so $(OBJECT)
