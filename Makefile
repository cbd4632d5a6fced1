# dynprof: see README.md. `make` builds, `make demo` shows, `make test` tests.
SHELL := /bin/bash -eo pipefail
GO    ?= go
BUILD := build

# goinit.ld keeps the Go runtime's start entry out of DT_INIT_ARRAY;
# initfirst runs our constructor before every other.
EXTLD := -Wl,-T,$(CURDIR)/libdynprof/goinit.ld \
	-Wl,--version-script=$(CURDIR)/libdynprof/exports.map \
	-Wl,-z,initfirst -Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now \
	-Wl,--wrap=pthread_create -Wl,--wrap=malloc -Wl,--wrap=free \
	-Wl,--wrap=pthread_getattr_np -Wl,--wrap=pthread_attr_getstacksize \
	-Wl,--wrap=pthread_mutex_lock -Wl,--wrap=pthread_mutex_unlock \
	-Wl,--wrap=pthread_cond_wait -Wl,--wrap=pthread_cond_broadcast

.PHONY: all demo test deps lint unit fuzz bench-startup man clean
all: $(BUILD)/libdynprof.so $(BUILD)/hotspots

GOFILES := $(shell find . -name '*.go' -not -name '*_test.go' -not -path './build/*')
CFILES  := $(wildcard libdynprof/*.[chS] libdynprof/*.ld libdynprof/*.map)
SFILES  := $(shell find cmd -name '*.s')

$(BUILD)/libdynprof.so: $(GOFILES) $(CFILES) go.mod go.sum
	@mkdir -p $(BUILD)
	CGO_ENABLED=1 CGO_CFLAGS="-O2" $(GO) build -trimpath -buildmode=c-shared \
		-ldflags "-s -w -extldflags '$(EXTLD)'" -o $@ ./libdynprof
	@rm -f $(BUILD)/libdynprof.h
	@$(GO) run ./internal/checklib $@

# The command carries the library: copying this one file is an installation.
# Its entry point notes which signals were ignored before the Go runtime
# replaces them (cmd/hotspots/internal/launch).
$(BUILD)/hotspots: $(BUILD)/libdynprof.so $(SFILES)
	cp $< cmd/hotspots/embed/libdynprof.so
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -E hotspots_entry" -o $@ ./cmd/hotspots
	@$(GO) run ./internal/checklib $@

# What a user gets: a real program of Debian, unmodified, counted.
DEMO := my %n; for my $$i (1..200000) { $$n{$$i % 997} .= chr(65 + $$i % 26) } \
	print length(join "", map { $$n{$$_} } sort keys %n), " characters sorted\n";
demo: all
	@echo "Counting every call of every function of $$(command -v perl), as Debian ships it:"
	$(BUILD)/hotspots run --summary 15 -- perl -e '$(DEMO)'

test: deps all lint unit fuzz

deps:
	@scripts/deps.sh

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "lint: run gofmt" >&2; exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod staticcheck ./...

# All Go tests, the end-to-end ones on build/ included; skips are listed by
# name, with their number, at the end.
unit: all
	$(GO) tool -modfile=tools/go.mod gotestsum --format pkgname --hide-summary output -- -count=1 -timeout 14m ./...

FUZZTIME ?= 4s
fuzz:
	@GO=$(GO) scripts/fuzz.sh $(FUZZTIME)

# Time added to the start of a trivial program and of one with 45,000 functions.
bench-startup: all
	$(GO) run ./bench/startup

man: all
	$(BUILD)/hotspots man $(BUILD)/man

clean:
	rm -rf $(BUILD) cmd/hotspots/embed/libdynprof.so
