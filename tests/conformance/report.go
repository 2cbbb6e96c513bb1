package main

import (
	"fmt"
	"os"
	"strings"
)

// differences are where 7.0, whose suite is run, and 7.4, whose behaviour spindle has, part, as far as tests of the suite meet them.
var differences = []string{
	"`SET key value PXAT t` is propagated as the client wrote it; 7.0 rewrites it to `SET key value PXAT t` and drops NX and XX.",
	"In the replication stream the SELECT of a transaction stands behind its MULTI; in 7.0 before it.",
	"The CPU lists are settings with dashes, `aof-rewrite-cpulist`; 7.0 calls them `aof_rewrite_cpulist`. Both names are taken.",
	"CLIENT LIST has `watch`, `lib-name` and `lib-ver`.",
	"Short lists are listpacks, and short sets of texts too; in 7.0 quicklists and hashtables. Scores are printed by their shortest text.",
	"Who waits for a stream or its group and sees it go gets NOGROUP or WRONGTYPE; in 7.0 UNBLOCKED.",
}

// own are where spindle's answers are not 7.4's, on purpose or for want of work.
var own = []string{
	"A cursor, a name or a number is looked at to its end where 7.4 stops at a zero byte: `CLIENT SETNAME` with one is refused.",
	"RESTORE checks every payload to the last byte whatever `sanitize-dump-payload` says: bytes behind the value, scores that only begin as numbers, field deadlines out of order are refused. A sorted set's listpack that is out of order is put in order. Short lists from files of ziplists are listpacks.",
	"SORT of a small sorted set leaves its encoding as it is (7.4 makes it a skiplist), with ALPHA compares whole elements also without STORE (7.4 stops at a zero byte there), and never refuses a number because of one it read before.",
	"ZSCAN of a listpack shows a score's shortest text, also where a file of 7.0 brought a longer one.",
	"GEORADIUS and GEOSEARCHSTORE with STOREDIST: distances are reckoned to the nearest double on every machine; 7.4's last bit depends on its C library (0.25 % of distances differ by it).",
	"Counts of deliveries in XPENDING and XINFO stop at 4294967295. XAUTOCLAIM refuses a COUNT above 2^32.",
	"`list-compress-depth` leaves pieces of more than 256 KB, mostly single long elements, as they are: compressing them would take a long turn.",
	"Bloom filters follow RedisBloom 2.8 (type MBbloom--, RDB versions 1 to 4), held against its published figures, not a running server. COPY works on them; a chain is at most 64 GB; COMMAND gives their true arity.",
	"Files are written for Redis 7.0 by default (`rdb-version`): when a consumer of a stream last got something is not in them.",
	"Clients that wait for a key (BLPOP, BZPOPMIN …) are served when SORT, ZUNIONSTORE and others with a destination put what they wait for in the place of another type; 7.4 leaves them waiting.",
	"SWAPDB that makes several keys ready serves those who wait for them by the keys' names; 7.4 in the order of a hash table that is seeded anew at each start.",
	"WATCH of a key that is past its deadline and not yet removed, then SET of it with a deadline in the past: EXEC runs, because the key is as gone as it was; 7.4 answers null.",
	"RESTORE with a TTL that reaches beyond 2^63-1 keeps the key as long as can be told; 7.4's sum overflows, and the key is gone at once.",
	"A failed AUTH is answered in a pipeline, too; 7.4 leaves its reply out when others are still to be sent.",
	"used_memory counts data, clients and replicas, not the process itself, some 19 MB: mem_fragmentation_ratio of a server that holds less says nothing.",
	"After CLIENT REPLY OFF or SKIP a protocol error closes the connection; 7.4 leaves it open and silent.",
	"CONFIG REWRITE keeps a lone client-output-buffer-limit line; 7.4 puts another class's default in its place.",
	"COMMAND DOCS has 7.4's arguments; summaries, complexities and histories are 7.2's, and our own for what is newer. LOLWUT VERSION 5 and 6 draw pictures of our own.",
}

// newer is what a run of 7.4.1's suite said. It is written down by hand: that suite is not under a free licence, so `make conformance` does not
// fetch it.
const newer = `## Redis 7.4's own suite

With ` + "`go run ./tests/conformance -suite <unpacked redis 7.4.1> -file …`" + ` on commit 9df8122 (2026-11-21), unit/type/*, sort, scan, dump, expire, keyspace, bitops,
bitfield, geo, hyperloglog, multi, info, introspection, introspection-2, other, slowlog, latency-monitor, protocol, querybuf, integration/rdb, corrupt-dump, its fuzzer and
convert-*: 1827 tests pass, among them all of unit/type/list (285), zset, hash, string, incr, geo, bitops, hyperloglog, keyspace, protocol; 122 do not:

- 88 need the append-only file, REPLICAOF, MIGRATE, scripts, cluster, CLIENT TRACKING or CACHING, or name a command of theirs.
- 14 of corrupt-dump: 13 give RESTORE a damaged payload and expect it to be taken, or the server to end with ASSERTION FAILED, where spindle refuses
  it; one counts lines of redis-check-rdb.
- 14 look into a C server: for the process of a child, which spindle has not (one such test leaves its settings to the six behind it), at the sizes of
  query buffers, at tables that are rehashed.
- 6 found something: SLOWLOG of blocked commands (2), INFO debug and the loop's recent times (2), and the two bytes behind a
  long argument, which count towards client-query-buffer-limit: mended since; and list-compress-depth, which had no effect then: of f3c6113 unit/type/list (257 tests),
  list-2 and list-3 pass.

`

// writeReport writes COMPATIBILITY.md from a whole run.
func writeReport(file string, verdicts []*verdict, excluded *exclusions, suite, server string) error {
	var b strings.Builder
	b.WriteString("# Compatibility\n\n")
	b.WriteString("spindle answers as Redis 7.4 does. This page says how far, held against the public Tcl suite of Redis 7.0, and where not.\n")
	b.WriteString("It is written by `make conformance`, from a run that compares every test with what `tests/conformance/exclusions.txt` allows.\n\n")
	fmt.Fprintf(&b, "- server under test: %s\n- suite and reference: Debian's redis source package %s\n\n", server, suite)
	writeCounts(&b, verdicts)
	b.WriteString(newer)
	writeDifferences(&b)
	writeExclusions(&b, verdicts, excluded)
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

func writeCounts(b *strings.Builder, verdicts []*verdict) {
	b.WriteString("## Tests by file\n\n")
	b.WriteString("*Later*: needs a data type or a feature that does not exist yet. *Excluded*: will not pass, for the reasons below.\n")
	b.WriteString("*Unexplained* must be 0.\n\n")
	b.WriteString("| file | reference passes | spindle passes | later | excluded | unexplained |\n|---|---:|---:|---:|---:|---:|\n")
	var sum verdict
	var later, never, wrong int
	for _, v := range verdicts {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d |\n", v.file, v.reference, v.passes, v.later(), v.never(), v.wrong())
		sum.reference += v.reference
		sum.passes += v.passes
		later, never, wrong = later+v.later(), never+v.never(), wrong+v.wrong()
	}
	fmt.Fprintf(b, "| **all** | **%d** | **%d** | **%d** | **%d** | **%d** |\n\n", sum.reference, sum.passes, later, never, wrong)
	b.WriteString("An exclusion may name a failure outside of any test, or a test that the reference fails too, so a row need not add up.\n\n")
}

func writeDifferences(b *strings.Builder) {
	b.WriteString("## Where 7.4 parts from 7.0, and spindle follows 7.4\n\n")
	for _, d := range differences {
		fmt.Fprintf(b, "- %s\n", d)
	}
	b.WriteString("\n## Where spindle parts from 7.4\n\n")
	for _, d := range own {
		fmt.Fprintf(b, "- %s\n", d)
	}
	b.WriteString("\n")
}

func writeExclusions(b *strings.Builder, verdicts []*verdict, excluded *exclusions) {
	count := map[*class]int{}
	for _, v := range verdicts {
		for c, n := range v.excluded {
			count[c] += n
		}
	}
	for _, later := range []bool{false, true} {
		if later {
			b.WriteString("## Later\n\n")
		} else {
			b.WriteString("## Excluded\n\n")
		}
		for i := range classes {
			c := &classes[i]
			if c.later != later || count[c] == 0 {
				continue
			}
			fmt.Fprintf(b, "### %s (%d): %s\n\n", c.name, count[c], c.means)
			for _, e := range excluded.all {
				if e.class == c {
					name := strings.ReplaceAll(e.name, "`", "'")
					fmt.Fprintf(b, "- %s, `%s`: %s\n", e.file, name, e.reason)
				}
			}
			b.WriteString("\n")
		}
	}
}
