# spindle. The two commands that matter: `make run` and `make test`. Everything else says what it does.

GO      ?= go
BIN     := bin/spindle
PORT    ?= 6379
FUZZTIME ?= 30s
SUDO    := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: all build run test unit deps vet race invariants fuzz bench bench-quick pgo tidy conformance soak clean

all: build

build: ## bin/spindle, with default.pgo
	$(GO) build -o $(BIN) .

run: build ## serve 127.0.0.1:6379
	./$(BIN) --bind 127.0.0.1 --port $(PORT)

test: deps build vet unit ## every test that belongs to a change

unit:
	$(GO) test -timeout 20m ./...

vet:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not gofmt'd: $$unformatted"; exit 1; }
	$(GO) vet ./...

# The tests hold spindle against Debian's redis: the server as the oracle, its tools as the users; lua5.1 is the language's.
deps:
	@command -v redis-server >/dev/null && command -v redis-cli >/dev/null && command -v redis-check-rdb >/dev/null && command -v lua5.1 >/dev/null || \
	{ $(SUDO) apt-get update -q && $(SUDO) env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -yq redis-server redis-tools procps lua5.1; }

race: deps build ## the same tests under the race detector; slabs come from the Go heap there
	$(GO) test -race -timeout 40m ./...

invariants: deps build ## the same tests with every invariant checked and freed blocks poisoned
	$(GO) test -tags invariants -timeout 40m ./...

# A minute for each new input, as is the default, would leave little time for others.
fuzz: ## every fuzz target for FUZZTIME
	@for package in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$package 2>/dev/null | grep '^Fuzz'); do \
	    echo "== $$package $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s $$package || exit 1; \
	  done; \
	done

bench: deps build ## side by side with redis-server; writes BENCHMARKS.md
	$(GO) run ./bench full

bench-quick: deps build ## the same in under a minute, for daily use; writes nothing
	$(GO) run ./bench quick

pgo: build ## renews default.pgo from the bench's load
	$(GO) run ./bench pgo

tidy: ## tests about the code itself
	$(GO) test ./tools/tidy

# With REDIS_SRC naming an unpacked source of redis 7.4.1 that has been built, its suite is run first.
conformance: deps build ## the public Tcl suites and the differential runner; writes COMPATIBILITY.md
	$(GO) run ./tests/conformance
	$(GO) test -count=1 -v -timeout 60m ./tests/differential -run TestDifferential -calls 10000000
	$(GO) test -count=1 -v -timeout 60m ./tests/differential -run TestBlocking -plans 20000
	SPINDLE_LUA_PROGRAMS=200000 $(GO) test -count=1 -v -timeout 60m ./scripting/lua -run AgainstLua

soak: deps build ## the black-box tests at twenty times their size, those of the log, of Sentinel and of scripts at many times
	SPINDLE_TEST_SCALE=20 $(GO) test -count=1 -timeout 2h ./tests/...
	SPINDLE_SENTINEL_SEEDS=10000 $(GO) test -count=1 -timeout 2h ./sentinel/...
	SPINDLE_CRASH_SEEDS=100000 $(GO) test -count=1 -timeout 6h ./aof
	SPINDLE_LUA_PROGRAMS=100000 SPINDLE_LUA_PAUSES=100000000 SPINDLE_LIB_CALLS=1000000 SPINDLE_SCRIPT_PAUSES=1000000 \
	  $(GO) test -count=1 -timeout 2h ./scripting/...

clean:
	rm -rf bin
