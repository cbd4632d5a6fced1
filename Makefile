# dynprof: see README.md. `make` builds, `make demo` shows, `make test` tests.
SHELL := /bin/bash -eo pipefail
GO    ?= go
BUILD := build

# goinit.ld keeps the Go runtime's start entry out of DT_INIT_ARRAY;
# initfirst runs our constructor before every other.
EXTLD := -Wl,-T,$(CURDIR)/libdynprof/goinit.ld \
	-Wl,--version-script=$(CURDIR)/libdynprof/exports.map \
	-Wl,-z,initfirst -Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now

.PHONY: all demo test deps lint unit fuzz e2e bench-startup man clean
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

clean:
	rm -rf $(BUILD) cmd/hotspots/embed/libdynprof.so
