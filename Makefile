# spindle. The two commands that matter: `make run` and `make test`. Everything else says what it does.

GO      ?= go
BIN     := bin/spindle
PORT    ?= 6379
FUZZTIME ?= 30s

# Where `make install` puts things; DESTDIR stands before all of them. The configuration is kept if there is one.
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
DATADIR    ?= $(PREFIX)/share
UNITDIR    ?= $(PREFIX)/lib/systemd/system
SYSCONFDIR ?= /etc
STATEDIR   ?= /var/lib/spindle
LOGDIR     ?= /var/log/spindle
RUNDIR     ?= /run/spindle
SHARE      := bin/share
TOOLS      := check-rdb check-aof sentinel proxy dashboard
UNITS      := spindle.service spindle-sentinel.service spindle-proxy@.service spindle-dashboard.service \
  spindle-backup.service spindle-backup.timer
PLACES     := -e 's|@BINDIR@|$(BINDIR)|g' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|g' \
  -e 's|@STATEDIR@|$(STATEDIR)|g' -e 's|@LOGDIR@|$(LOGDIR)|g'

SUDO    := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: install uninstall user share deb deb-test container-test release page page-record all build run test quick unit deps vet race invariants fuzz bench bench-quick \
  s3 pgo clients tidy conformance soak clean proxy-demo proxy-demo-stop

# With the program's profile, the manual's tool shares all its compiled packages with the program.
all: SAME := -pgo=default.pgo
all: build share

build: ## bin/spindle, with default.pgo
	$(GO) build -o $(BIN) .

run: build ## serve 127.0.0.1:6379
	./$(BIN) --bind 127.0.0.1 --port $(PORT)

# The demo stays in the foreground: Ctrl-C ends it and removes its files. So does proxy-demo-stop, from elsewhere.
DEMO_PID := bin/proxy-demo.pid
proxy-demo: build ## three shards with replicas, etcd, two proxies and a dashboard, to try
	@command -v etcd >/dev/null && command -v redis-cli >/dev/null || \
	  { $(SUDO) apt-get update -q && $(SUDO) env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -yq \
	  etcd-server redis-tools; } || echo "The packages etcd-server and redis-tools cannot be had."
	@exec ./$(BIN) proxy demo --pidfile $(DEMO_PID)

proxy-demo-stop: ## ends it
	@[ -e $(DEMO_PID) ] || { echo "No demo runs."; exit 0; }; kill $$(cat $(DEMO_PID)) || rm -f $(DEMO_PID); \
	  for _ in $$(seq 300); do [ -e $(DEMO_PID) ] || exit 0; sleep 0.1; done; echo "The demo does not end."; exit 1

share: ## manual pages and completion
	$(GO) run $(SAME) ./tools/manual $(SHARE)

$(BIN):
	$(MAKE) build
$(SHARE):
	$(MAKE) share

# What `make` has made is installed, so that root needs no Go. The check-… names are links: the program knows by its
# name which of its tools it is. No name of Redis's is taken.
install: | $(BIN) $(SHARE) ## program, units, manual, completion, configuration, below PREFIX and DESTDIR
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(UNITDIR) $(DESTDIR)$(DATADIR)/man/man1 $(DESTDIR)$(DATADIR)/man/man5 \
	  $(DESTDIR)$(DATADIR)/bash-completion/completions $(DESTDIR)$(DATADIR)/zsh/site-functions \
	  $(DESTDIR)$(SYSCONFDIR)/spindle $(DESTDIR)$(SYSCONFDIR)/logrotate.d
	install -m 755 $(BIN) $(DESTDIR)$(BINDIR)/spindle
	for tool in $(TOOLS); do ln -sf spindle $(DESTDIR)$(BINDIR)/spindle-$$tool; done
	for unit in $(UNITS); do \
	  sed $(PLACES) packaging/systemd/$$unit > $(DESTDIR)$(UNITDIR)/$$unit && \
	  chmod 644 $(DESTDIR)$(UNITDIR)/$$unit || exit 1; done
	sed $(PLACES) packaging/logrotate > $(DESTDIR)$(SYSCONFDIR)/logrotate.d/spindle
	chmod 644 $(DESTDIR)$(SYSCONFDIR)/logrotate.d/spindle
	install -m 644 $(SHARE)/man/*.1 $(DESTDIR)$(DATADIR)/man/man1
	install -m 644 $(SHARE)/man/*.5 $(DESTDIR)$(DATADIR)/man/man5
	install -m 644 $(SHARE)/bash/spindle $(DESTDIR)$(DATADIR)/bash-completion/completions/spindle
	install -m 644 $(SHARE)/zsh/_spindle $(DESTDIR)$(DATADIR)/zsh/site-functions/_spindle
	[ -e $(DESTDIR)$(SYSCONFDIR)/spindle/spindle.conf ] || { \
	  sed -e 's|^bind \* -::\*$$|bind 127.0.0.1 -::1|' -e 's|^dir \./$$|dir $(STATEDIR)|' \
	    -e 's|^logfile ""$$|logfile $(LOGDIR)/spindle.log|' -e 's|^pidfile ""$$|pidfile $(RUNDIR)/spindle.pid|' \
	    spindle.conf > $(DESTDIR)$(SYSCONFDIR)/spindle/spindle.conf && \
	  chmod 640 $(DESTDIR)$(SYSCONFDIR)/spindle/spindle.conf; }
	[ -e $(DESTDIR)$(SYSCONFDIR)/spindle/sentinel.conf ] || { \
	  sed -e 's|^dir /tmp$$|dir $(STATEDIR)-sentinel\nlogfile $(LOGDIR)/sentinel.log|' sentinel.conf \
	    > $(DESTDIR)$(SYSCONFDIR)/spindle/sentinel.conf && \
	  chmod 640 $(DESTDIR)$(SYSCONFDIR)/spindle/sentinel.conf; }
	[ -e $(DESTDIR)$(SYSCONFDIR)/spindle/proxy.conf ] || { \
	  { cat proxy/proxy.conf; printf '\n# %s\nbind 127.0.0.1 -::1\nport 6400\n' \
	    'Other hosts reach the proxy once another address is given here.'; } > $(DESTDIR)$(SYSCONFDIR)/spindle/proxy.conf && \
	  chmod 640 $(DESTDIR)$(SYSCONFDIR)/spindle/proxy.conf; }
	[ -e $(DESTDIR)$(SYSCONFDIR)/spindle/dashboard.conf ] || { \
	  sed -e 's|^store ""$$|store folder:$(STATEDIR)-dashboard|' proxy/dashboard/dashboard.conf \
	    > $(DESTDIR)$(SYSCONFDIR)/spindle/dashboard.conf && \
	  chmod 640 $(DESTDIR)$(SYSCONFDIR)/spindle/dashboard.conf; }
	[ -e $(DESTDIR)$(SYSCONFDIR)/spindle/backup.conf ] || { \
	  sed -e 's|/etc/spindle/|$(SYSCONFDIR)/spindle/|g' packaging/backup.conf > $(DESTDIR)$(SYSCONFDIR)/spindle/backup.conf && \
	  chmod 640 $(DESTDIR)$(SYSCONFDIR)/spindle/backup.conf; }

	install -d $(DESTDIR)$(DATADIR)/spindle
	install -m 644 packaging/user.sh $(DESTDIR)$(DATADIR)/spindle/user.sh

uninstall: ## removes what install has put there; configuration, data, logs and the user stay
	rm -f $(DESTDIR)$(BINDIR)/spindle $(TOOLS:%=$(DESTDIR)$(BINDIR)/spindle-%) $(UNITS:%=$(DESTDIR)$(UNITDIR)/%) \
	  $(DESTDIR)$(DATADIR)/man/man1/spindle.1 $(DESTDIR)$(DATADIR)/man/man1/spindle-*.1 \
	  $(DESTDIR)$(DATADIR)/man/man5/spindle.conf.5 $(DESTDIR)$(DATADIR)/man/man5/spindle-*.conf.5 \
	  $(DESTDIR)$(DATADIR)/bash-completion/completions/spindle $(DESTDIR)$(DATADIR)/zsh/site-functions/_spindle \
	  $(DESTDIR)$(SYSCONFDIR)/logrotate.d/spindle $(DESTDIR)$(DATADIR)/spindle/user.sh
	[ ! -d $(DESTDIR)$(DATADIR)/spindle ] || rmdir $(DESTDIR)$(DATADIR)/spindle

user: ## the user and the folders of the unit that `make install` has installed; needs root
	sh packaging/user.sh $(DESTDIR)$(SYSCONFDIR)/spindle $(STATEDIR) $(LOGDIR)

# A static program, so that the package goes with any Debian. nfpm is run at this version and is no part of go.mod.
NFPM        := $(GO) run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4
DEB_ROOT    := bin/deb-root
DEB_ARCH    := $(shell $(GO) env GOARCH 2>/dev/null)
DEB_VERSION := $(shell sed -n 's/^const Spindle = "\(.*\)"/\1/p' internal/version/version.go)
DEB         := bin/spindle_$(DEB_VERSION)_$(DEB_ARCH).deb

deb: share ## bin/spindle_VERSION_ARCH.deb
	rm -rf $(DEB_ROOT)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o bin/spindle-static .
	$(MAKE) install DESTDIR=$(DEB_ROOT) PREFIX=/usr UNITDIR=/lib/systemd/system BIN=bin/spindle-static
	mv $(DEB_ROOT)/usr/share/zsh/site-functions $(DEB_ROOT)/usr/share/zsh/vendor-completions
	ln -s spindle $(DEB_ROOT)/usr/bin/redis-server
	gzip -9n $(DEB_ROOT)/usr/share/man/man*/*
	install -d $(DEB_ROOT)/usr/share/doc/spindle && \
	  gzip -9nc CHANGELOG.md > $(DEB_ROOT)/usr/share/doc/spindle/changelog.gz
	DEB_ROOT=$(DEB_ROOT) DEB_ARCH=$(DEB_ARCH) DEB_VERSION=$(DEB_VERSION) GOFLAGS= \
	  $(NFPM) package --config packaging/debian/nfpm.yaml --packager deb --target $(DEB)

# Static programs for two kinds of processors, each with its pages and a configuration; the Debian package; and the
# checksums of all. The profile is used, so it takes some minutes.
RELEASE      := bin/release
RELEASE_FILES := README.md LICENSE CHANGELOG.md MIGRATION.md SECURITY.md spindle.conf sentinel.conf
release: deb ## bin/release: archives for amd64 and arm64, the Debian package, SHA256SUMS
	rm -rf $(RELEASE) && mkdir -p $(RELEASE)
	for arch in amd64 arm64; do \
	  name=spindle-$(DEB_VERSION)-linux-$$arch && mkdir -p $(RELEASE)/$$name && \
	  CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags='-s -w' -o $(RELEASE)/$$name/spindle . && \
	  cp -r $(RELEASE_FILES) $(SHARE)/man $(RELEASE)/$$name && \
	  tar --sort=name --owner=0 --group=0 --mtime=@$$(git log -1 --format=%ct) -C $(RELEASE) -czf $(RELEASE)/$$name.tar.gz \
	    $$name && rm -r $(RELEASE)/$$name || exit 1; done
	cp $(DEB) $(RELEASE)
	cd $(RELEASE) && sha256sum * > SHA256SUMS

# Needs root, debootstrap and the network, and minutes: the root that the package is installed on is made anew.
deb-test: deb ## installs, uses, removes and purges the package on a clean Debian
	$(SUDO) sh packaging/debian/test.sh $(DEB)

container-test: ## plays each step of the container file in a bare root, as root
	SPINDLE_CONTAINER=steps $(GO) test -count 1 -run TestContainer ./tests/install

test: deps vet unit ## every test that belongs to a change

# The packages that take longest begin first. They wait more than they compute, so half as many more run at a time as
# there are processors. Without the profile, vet, tests and the servers that they start share one compilation. vet has
# looked at every package before. The server is built once: some 40 test processes would ask the go command otherwise.
TESTED  := bin/test-plain/spindle
LONGEST := $(addprefix ./tests/,cluster dashboard process page proxy whole topology limits longreads sentinel) ./reactor \
  ./tests/differential ./proxy/store ./tests/aof
AT_ONCE := $(shell expr $$(nproc) '*' 3 / 2)
unit:
	$(GO) build -pgo=off -o $(TESTED) .
	SPINDLE_BINARY=$(CURDIR)/$(TESTED) $(GO) test -pgo=off -vet=off -p $(AT_ONCE) -timeout 20m $(LONGEST) ./...
	$(GO) test -pgo=off -tags invariants -timeout 20m ./engine/catalogue

# CHANGED are the packages with files that differ from BASE. AFFECTED are those and all that import them. Tests with
# real processes are left out, but for the transcripts. -short has tests that play by chance play less.
BASE ?= $(shell git rev-parse -q --verify main >/dev/null && git merge-base main HEAD || echo HEAD)
CHANGED = { git diff --name-only $(BASE); git ls-files --others --exclude-standard; } | \
  xargs -r -n1 dirname | sed -e 's|^|spindle/|' -e 's|/\.$$||' -e 's|/testdata.*||' | sort -u
AFFECTED = $(GO) list -f '{{.ImportPath}} {{join .Deps " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... | \
  awk -v changed="$$($(CHANGED) | tr '\n' ' ')" 'BEGIN { n = split(changed, c); for (i = 1; i <= n; i++) is[c[i]] = 1 } \
  $$1 !~ "^spindle/tests/" { for (i = 1; i <= NF; i++) if ($$i in is) { print $$1; break } }'

quick: ## build, vet, transcripts, unit tests of changed packages and of those that import them
	$(GO) build -pgo=off -o $(BIN) .
	$(GO) vet -pgo=off ./...
	$(GO) test -pgo=off -short -timeout 5m ./tests/transcripts $$($(AFFECTED))

# With less garbage collection, vet takes a seventh less CPU.
vet:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	  [ -z "$$unformatted" ] || { echo "not gofmt'd: $$unformatted"; exit 1; }
	GOGC=400 $(GO) vet -pgo=off ./...

# The tests hold spindle against Debian's redis: the server is the oracle, its tools are the users. lua5.1 is the
# language's oracle, systemd-analyze that of the units, and openssl that of TLS. ip makes networks of namespaces. etcd
# is the store of proxies.
deps:
	@command -v redis-server >/dev/null && command -v redis-cli >/dev/null && \
	  command -v redis-check-rdb >/dev/null && command -v lua5.1 >/dev/null && \
	  command -v systemd-analyze >/dev/null && command -v ip >/dev/null && \
	  command -v openssl >/dev/null && command -v etcd >/dev/null || \
	  { $(SUDO) apt-get update -q && $(SUDO) env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -yq \
	  redis-server redis-tools procps lua5.1 systemd iproute2 openssl etcd-server; }

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

# They stay outside the tree. `make test` uses those that are there, and redis-py where python3 has it (python3-redis).
clients: ## clients of other makers, for the tests that follow failovers with them: bin/clients
	mkdir -p bin/clients
	npm install --silent --no-save --prefix bin/clients ioredis@5 redis@6 bullmq@5
	$(GO) build -C tests/sentinel/testdata/clients/goredis -o $(CURDIR)/bin/clients/goredis .
	$(GO) build -C tests/cluster/testdata/clients/goredis -o $(CURDIR)/bin/clients/goredis-cluster .
	$(GO) build -C tests/proxy/testdata/clients/goredis -o $(CURDIR)/bin/clients/goredis-proxy .
	$(GO) build -C tests/pushes/testdata/clients/goredis -o $(CURDIR)/bin/clients/goredis-maintenance .

tidy: ## tests about the code itself
	$(GO) test ./tools/tidy

# Chromium is 80 MB to fetch: `make test` uses it where it is and says what it skips elsewhere.
page: build ## the live page's tests, in a Chromium that this installs
	@command -v chromium >/dev/null || \
	  { $(SUDO) apt-get update -q && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -yq \
	  --no-install-recommends chromium strace; }
	$(GO) test -count=1 ./tests/page

page-record: ## the pictures of doc/live.md and the record of the page's trial, made anew by its tests
	SPINDLE_SCREENS=$(CURDIR)/doc SPINDLE_TRIAL=$(CURDIR)/tests/page/trial.txt \
	  $(GO) test -count=1 -timeout=20m -run='TestScreens|TestTrial' ./tests/page

# versitygw is no part of go.mod: it is a program that answers, as redis-server is.
VERSITYGW := github.com/versity/versitygw/cmd/versitygw@v1.8.0
s3: build ## backups in an S3 server of another maker, which this installs in bin
	GOFLAGS= GOBIN=$(CURDIR)/bin $(GO) install $(VERSITYGW)
	PATH=$(CURDIR)/bin:$$PATH $(GO) test -count=1 -v ./tests/backup -run Gateway

# With REDIS_SRC naming an unpacked source of redis 7.4.1 that has been built, its suite is run first.
conformance: deps build page s3 ## the public Tcl suites and the differential runner; writes COMPATIBILITY.md
	$(GO) run ./tests/conformance
	$(GO) test -count=1 -v -timeout 60m ./tests/differential -run TestDifferential -calls 10000000
	$(GO) test -count=1 -v -timeout 60m ./tests/differential -run TestBlocking -plans 20000
	SPINDLE_LUA_PROGRAMS=200000 $(GO) test -count=1 -v -timeout 60m ./scripting/lua -run AgainstLua

# Twenty times the size of the black-box tests, and many times that of Sentinel's, Cluster's, the log's and scripts'.
# tests/histories takes some 20 minutes of it: a minute for each unit of SPINDLE_TEST_SCALE.
soak: deps build ## the tests that play by chance, at many times their size
	SPINDLE_TEST_SCALE=20 $(GO) test -count=1 -timeout 2h ./tests/...
	SPINDLE_TEST_SCALE=20 $(GO) test -count=1 -timeout 2h ./engine/data/keyspace ./engine/data/value/stream -run Model
	SPINDLE_TEST_SCALE=20 $(GO) test -count=1 -timeout 2h ./server ./reactor -run 'Pipelines|Turns|AnySplit'
	$(GO) test -count=1 -timeout 6h ./tests/whole -run Matrix -cells 200000
	SPINDLE_SENTINEL_SEEDS=10000 $(GO) test -count=1 -timeout 2h ./sentinel/...
	SPINDLE_CLUSTER_SEEDS=20000 $(GO) test -count=1 -timeout 6h ./cluster/state -run Simulation
	SPINDLE_FINDER_CALLS=10000000 $(GO) test -tags invariants -count=1 -timeout 2h ./engine/catalogue
	SPINDLE_CRASH_SEEDS=100000 $(GO) test -count=1 -timeout 6h ./aof
	SPINDLE_LUA_PROGRAMS=100000 SPINDLE_LUA_PAUSES=100000000 SPINDLE_LIB_CALLS=1000000 SPINDLE_SCRIPT_PAUSES=1000000 \
	  $(GO) test -count=1 -timeout 2h ./scripting/...

clean:
	rm -rf bin
