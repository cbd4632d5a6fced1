# dynprof: see README.md. `make` builds, `make demo` shows, `make test` tests.
SHELL := /bin/bash -eo pipefail
GO    ?= go
BUILD := build

# goinit.ld keeps the Go runtime's start entry out of DT_INIT_ARRAY;
# initfirst runs our constructor before every other.
EXTLD := -Wl,-T,$(CURDIR)/libdynprof/goinit.ld \
	-Wl,--version-script=$(CURDIR)/libdynprof/exports.map \
	-Wl,-z,initfirst -Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now

.PHONY: all clean
all: $(BUILD)/libdynprof.so

GOFILES := $(shell find . -name '*.go' -not -name '*_test.go' -not -path './build/*')
CFILES  := $(wildcard libdynprof/*.[chS] libdynprof/*.ld libdynprof/*.map)

$(BUILD)/libdynprof.so: $(GOFILES) $(CFILES) go.mod go.sum
	@mkdir -p $(BUILD)
	CGO_ENABLED=1 $(GO) build -trimpath -buildmode=c-shared -ldflags "-s -w -extldflags '$(EXTLD)'" -o $@ ./libdynprof

clean:
	rm -rf $(BUILD) cmd/hotspots/embed/libdynprof.so
