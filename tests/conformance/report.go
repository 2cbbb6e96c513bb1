package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// differences lists the differences between 7.0 and 7.4 that tests of the older suite notice. Spindle behaves like 7.4.
var differences = []string{
	"`SET key value PXAT t` is propagated as the client wrote it; 7.0 rewrites it to `SET key value PXAT t` and drops " +
		"NX and XX.",
	"In the replication stream a transaction's SELECT comes after its MULTI; in 7.0 before it.",
	"The CPU lists are settings with dashes, `aof-rewrite-cpulist`; 7.0 calls them `aof_rewrite_cpulist`. Both names " +
		"are taken.",
	"CLIENT LIST has `watch`, `lib-name` and `lib-ver`.",
	"Short lists are listpacks, and short sets of texts too; in 7.0 quicklists and hashtables. Scores are printed by " +
		"their shortest text.",
	"A client that waits for a stream or its group gets NOGROUP or WRONGTYPE when that is deleted; in 7.0 UNBLOCKED.",
}

// better lists intended differences from 7.4 that are better for the client.
var better = []string{
	"FLUSHALL and FLUSHDB take the same short time whatever they remove, also SYNC and inside MULTI: the memory is " +
		"freed in the background.",
	"A command that reads more than `long-read-elements` elements keeps no other client waiting, and answers as of its " +
		"moment. It holds for KEYS, HGETALL, HKEYS, HVALS, LPOS, LRANGE, SMEMBERS, XRANGE, XREAD, XPENDING, XINFO, " +
		"BITCOUNT, BITPOS and the ranges of sorted sets. It holds for SRANDMEMBER, SCAN and their kin with large counts. A " +
		"SCAN that is a long read leaves out expired keys, and does not remove them. It holds for DUMP, PFCOUNT, LCS, " +
		"DIGEST, MEMORY USAGE, DEBUG DIGEST, DEBUG OBJECT and CLUSTER GETKEYSINSLOT. It holds for what is not stored of " +
		"SORT, GEOSEARCH, unions, intersections and differences. SLOWLOG and `cmdstat` have its whole time, LATENCY the time for " +
		"which others waited. Messages of channels that its own client has subscribed to may come before its reply.",
	"BITFIELD with OVERFLOW SAT stores the end of the range that a value exceeds. In 7.4 a number near the least of " +
		"64 bits, SET into a narrower signed field, overflows and becomes the greatest.",
	"A Sentinel also promotes a replica when the primary was made a replica and no server has been primary for long. " +
		"With `down-after-milliseconds` below some 2 s, 7.4's Sentinels then never choose a primary again.",
	"A failover of a Sentinel ends at its timeout also if the promoted replica is down. In 7.4 it waits for that replica. " +
		"A replica without a link since its start is promoted only if it has not run for long, and no other is fit.",
	"In a cluster a failed replica does not keep others from migrating. CLUSTER SHARDS shows the slots of the shard's " +
		"primary also while an old primary is down. CLUSTER RESET gives a replica a new shard ID, as in Valkey 9.1; in 7.4 " +
		"it keeps its primary's. CLUSTER FAILOVER does not wait for the end of a lost election. The votes for a replica " +
		"count for two node timeouts, but 5 s at most.",
	"A primary that has lost slots removes their keys when its replicas know the new owner, or after two node timeouts. " +
		"Until then, it refuses SETSLOT IMPORTING and SETSLOT NODE of such a slot to itself, and CLUSTER REPLICATE and " +
		"RESET. 7.4 removes the keys at once.",
	"A replica that does not follow its new primary delays the others for `slave-reconf-timeout`; in 7.4 for the " +
		"whole `failover-timeout`.",
	"After a link to a primary fails, the replica waits 1, 2, 4 … 30 s before the next try. It waits 5 s at most while the " +
		"primary cannot be reached or is not ready, or if the last stream began without a copy. 7.4 tries each second, " +
		"and each try may cost the primary a fork.",
	"A command of the primary whose name or syntax a replica does not know stops the link before it. So does one whose " +
		"database the replica lacks, or for which its system has no memory. The data stay readable. 7.4 ignores the " +
		"first two, and the data differ afterwards; `replica-ignore-unknown-commands yes` does the same here.",
	"A full copy replaces `dump.rdb` and the append-only file after it was loaded. In 7.4 it replaces `dump.rdb` before " +
		"that. A copy that cannot be loaded leaves memory empty in both. Here the earlier files stay. BGSAVE, SAVE, " +
		"BGREWRITEAOF, rules and SHUTDOWN save nothing until a copy has been loaded or the replica is promoted.",
}

// own lists the other differences from 7.4: intended differences and missing work.
var own = []string{
	"A client that will get a message from a running script gets nothing else until the script ends. Even the reply to " +
		"SCRIPT KILL waits. 7.4 sends the message when the script has run for `busy-reply-threshold`.",
	"Whether a script or transaction may write depends on the server's state when it begins: on the last save, the " +
		"append-only file and `min-replicas-to-write`. In 7.4 it depends on the state before each script's first write. So " +
		"when a replica leaves during a script of a transaction, the next script of the transaction may be refused.",
	"MIGRATE without AUTH does not reuse the connection of a call that gave the password; 7.4 does.",
	"Access rules and cluster routing depend on the keys that a command uses. In 7.4 some calls use keys for which no " +
		"permission was checked. These are GEORADIUS and GEORADIUSBYMEMBER with two STORE, SORT with " +
		"`STORE get STORE key`, and PFMERGE of one key. Another is XREADGROUP of a group called `streams` after another " +
		"option. A call whose keys cannot be read is judged by its " +
		"keys at fixed places. XCLAIM needs permission to read, because it returns entries. COMMAND GETKEYS returns the " +
		"same keys.",
	"Cursors, names and numbers with a zero byte inside are refused, as in `CLIENT SETNAME`; 7.4 ignores what follows " +
		"the zero byte.",
	"RESTORE checks every payload to the last byte, whatever `sanitize-dump-payload` says. It refuses bytes after the value, " +
		"scores that only begin as numbers, and field deadlines out of order. A sorted set's listpack that is out " +
		"of order is put in order. Short lists from files of ziplists are listpacks.",
	"SORT of a small sorted set does not change its encoding; 7.4 makes it a skiplist. With ALPHA it compares whole " +
		"elements even without STORE; 7.4 stops at a zero byte there. It never refuses a number because of an earlier one.",
	"ZSCAN of a listpack shows a score's shortest text, even if a file of 7.0 has a longer one.",
	"GEORADIUS and GEOSEARCHSTORE with STOREDIST: distances are rounded to the nearest double on every machine. 7.4's " +
		"last bit depends on its C library, and 0.25 % of distances differ by it.",
	"Counts of deliveries in XPENDING and XINFO stop at 4294967295. XAUTOCLAIM refuses a COUNT above 2^32.",
	"`list-compress-depth` does not compress pieces of more than 256 KB, mostly single long elements: that would " +
		"block other clients for long.",
	"Bloom filters follow RedisBloom 2.8 (type MBbloom--, RDB versions 1 to 4), compared with its published figures, not " +
		"with a running server. COPY works on them. A chain is at most 64 GB, and one that a client makes at most `bf-max-size` " +
		"and `maxmemory`. If a chain has very many hashes, one BF.MEXISTS or BF.MADD takes fewer items. COMMAND gives " +
		"their true arity.",
	"CONFIG REWRITE and ACL SAVE keep the mode of the file, and its owner where the system allows that. 7.4 makes it " +
		"one that all may read. REPLICAOF and REPLCONF ip-address refuse a host with blanks, quotes or line breaks. " +
		"MIGRATE keeps a connection for callers with the same password. A bus message with the node's own ID is dropped.",
	"DUMP refuses a payload beyond `proto-max-bulk-len`; 7.4 makes it, and no client can send it back.",
	"Files are written for Redis 7.0 by default (`rdb-write-version`). They do not have the time when a stream's consumer " +
		"last got an entry, nor the messages of producers that streams remember (XADD IDMP). Full copies between spindles have that.",
	"Fixes of 7.4.2 and later are included. XINFO GROUPS has the right lag and entries-read when entries were deleted or " +
		"trimmed. SORT GET # works in cluster mode, and so does XREAD with + where the last entry was deleted or there is " +
		"none. PFCOUNT of several keys and PFMERGE refuse a sparse HyperLogLog with bytes after its last register.",
	"Commands in an append-only file that change neither data nor scripts (CONFIG SET, CLIENT …) are ignored, and " +
		"the log counts them. 7.4 runs them, although no server writes them. An append-only file that names a database " +
		"which this server lacks is refused; 7.4 puts the keys into the database before it. A log from before 7.0 is moved " +
		"into its folder after it was loaded; in 7.4 before.",
	"While a shutdown waits for replicas, SHUTDOWN NOW ends the wait, and may say SAVE or NOSAVE. 7.4 ignores a second " +
		"SHUTDOWN.",
	"SORT, ZUNIONSTORE and others with a destination may replace a value of another type by the type that a client waits " +
		"for (BLPOP, BZPOPMIN …). Then the client is served. 7.4 leaves it waiting.",
	"A SWAPDB may make several keys ready. Waiting clients are then served in the order of the keys' names. In 7.4 it is the " +
		"order of a hash table with a new seed at each start.",
	"A client watches an expired key that is not yet deleted, and a SET gives the key a deadline in the past. EXEC then " +
		"runs, because the key still does not exist. 7.4 answers null.",
	"OBJECT REFCOUNT of an integer from 0 to 9999 says whether it would be shared if it were written now. A change of " +
		"`maxmemory` or its policy shows at once, and a copy made by COPY counts as shared. 7.4 says how the value was " +
		"made. Spindle shares no value, and has no bit in an entry to remember that. Inside EXEC 7.4 also counts the " +
		"queue that holds a value.",
	"RESTORE with a TTL beyond 2^63-1 keeps the key until the latest possible time; 7.4's sum overflows, and the " +
		"key expires at once.",
	"A failed AUTH is answered in a pipeline, too; 7.4 leaves its reply out when others are still to be sent.",
	"used_memory counts data, clients, replicas and kept scripts, not the process itself: the program's pages and Go's " +
		"runtime, some 22 MB. mem_fragmentation_ratio leaves these out as well, so it concerns the data alone. It is the " +
		"resident memory beyond that of the empty server, divided by used_memory. 7.4 divides used_memory_rss, which is " +
		"the whole process here too. With less than some 10 MB of data the ratio says little in both.",
	"CLIENT LIST may not show all bytes that another client has sent before it. A loop reads some 128 KB of a client " +
		"before it serves others, and the loops of `io-threads` do not wait for each other. 7.4 reads first all that has " +
		"arrived. Two tests of unit/client-eviction suppose that, and may fail with several loops or on a busy host.",
	"After CLIENT REPLY OFF or SKIP a protocol error closes the connection; 7.4 leaves it open and silent.",
	"CONFIG REWRITE keeps a lone client-output-buffer-limit line; 7.4 puts another class's default in its place.",
	"BIGKEYS, STALLS, SCRIPT STATS and SPINDLE are spindle's own. HOTKEYS GET COUNT n shows figures that are always on. " +
		"After HOTKEYS START, HOTKEYS GET shows the session as Redis 8.6 does.",
	"COMMAND DOCS has 7.4's arguments; summaries, complexities and histories are 7.2's, and our own for what is newer. " +
		"LOLWUT VERSION 5 and 6 draw pictures of our own.",
}

// writeReport writes COMPATIBILITY.md, with the tables of newer.txt and libraries.txt in the folder data. section is
// the section about the proxy. If it is "", the page keeps its old section. The section of a suite that was not run
// stays too.
func writeReport(file, data, section string, ran []*outcome) error {
	things, err := readNewer(filepath.Join(data, "newer.txt"))
	if err != nil {
		return err
	}
	libraries, err := readLibraries(filepath.Join(data, "libraries.txt"))
	if err != nil {
		return err
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var b strings.Builder
	b.WriteString("# Compatibility\n\n")
	b.WriteString(
		"spindle answers as Redis 7.4 does. This page lists the differences, what newer servers have, and then the results " +
			"of client libraries' suites and of the public Tcl suites of Redis. It is written by `make conformance`; `go run ./tests/conformance -page` rewrites the " +
			"differences without a run. A run compares every test with what the suite's " +
			"own server makes of it, and with what `tests/conformance/exclusions-7.4.txt` and `exclusions.txt` allow. The " +
			"suite of " + newer.name + " is run where `REDIS_SRC` names its unpacked source with a built server in it. " +
			"Otherwise its part of this page stays as it is.\n\n")
	writeList(&b, "Where spindle parts from 7.4", own)
	writeList(&b, "Where spindle is better on purpose", better)
	writeList(&b, "Where 7.4 parts from 7.0, and spindle follows 7.4", differences)
	writeNewer(&b, things)
	writeLibraries(&b, libraries)
	if section == "" {
		section = sectionOf(string(old), proxiedHeading)
	}
	b.WriteString(section)
	for _, s := range inReport {
		if at := slices.IndexFunc(ran, func(o *outcome) bool { return o.suite == s }); at >= 0 {
			ran[at].write(&b)
		} else {
			b.WriteString(sectionOf(string(old), s.heading()))
		}
	}
	return os.WriteFile(file, []byte(fold(strings.TrimRight(b.String(), "\n")+"\n")), 0o644)
}

// pageWidth is the maximum length of a line of the page in characters, except for headings and rows of tables.
const pageWidth = 120

// fold breaks the long lines of a page at spaces, outside of code if possible. It never breaks before a word that
// Markdown would read as a list, a heading or a row. Continued lines of an item keep the item's indentation.
func fold(page string) string {
	var b strings.Builder
	for line := range strings.Lines(page) {
		indent := ""
		if strings.HasPrefix(line, "- ") {
			indent = "  "
		}
		for !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "|") {
			at := foldAt(line, len(indent))
			if at < 0 {
				break
			}
			b.WriteString(line[:at] + "\n")
			line = indent + line[at+1:]
		}
		b.WriteString(line)
	}
	return b.String()
}

// foldAt returns the index of the space where a line should be broken, after its first start bytes. It returns -1 if
// the line is short or has no such space.
func foldAt(line string, start int) int {
	text, column, code := strings.TrimSuffix(line, "\n"), 0, false
	outside, inside := -1, -1
	for i, r := range text {
		switch {
		case r == '`':
			code = !code
		case r != ' ' || i <= start || column > pageWidth || strings.ContainsAny(text[i+1:min(i+2, len(text))], "-+*#|>"):
		case code:
			inside = i
		default:
			outside = i
		}
		column++
	}
	switch {
	case column <= pageWidth:
		return -1
	case outside >= 0:
		return outside
	}
	return inside
}

func writeList(b *strings.Builder, heading string, lines []string) {
	fmt.Fprintf(b, "## %s\n\n", heading)
	for _, line := range lines {
		fmt.Fprintf(b, "- %s\n", line)
	}
	b.WriteString("\n")
}

// sectionOf returns the part of a page from its heading to the next one. It returns "" if the page has no such heading.
func sectionOf(page, heading string) string {
	_, rest, found := strings.Cut("\n"+page, "\n"+heading+"\n")
	if !found {
		return ""
	}
	if end := strings.Index(rest, "\n## "); end >= 0 {
		rest = rest[:end+1]
	}
	return heading + "\n" + strings.TrimRight(rest, "\n") + "\n\n"
}

func (s *suite) heading() string { return "## The suite of Redis " + s.name }

// An outcome is the result of one suite's run.
type outcome struct {
	suite    *suite
	excluded *exclusions
	version  string // the versions of the suite and its server
	server   string // the server under test
	verdicts []*verdict
}

func (o *outcome) write(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n\n- server under test: %s\n- suite and reference: %s\n\n", o.suite.heading(), o.server, o.version)
	o.writeCounts(b)
	if len(o.suite.later) > 0 {
		b.WriteString("Files that are not run yet, by the feature that they are about:\n\n")
		for _, l := range o.suite.later {
			fmt.Fprintf(b, "- %s: %s\n", l.feature, strings.Join(l.files, ", "))
		}
		b.WriteString("\n")
	}
	o.writeExclusions(b, "Later", func(c *class) bool { return c.later })
	o.writeExclusions(b, "Excluded", func(c *class) bool { return !c.later && !c.version })
}

func (o *outcome) writeCounts(b *strings.Builder) {
	b.WriteString("*Later*: needs a feature that does not exist yet. *Excluded*: will not pass, for the reasons below.\n")
	b.WriteString("*Version*: a newer version changed it, and spindle follows that. *Unexplained* must be 0.\n\n")
	b.WriteString("| file | reference passes | spindle passes | later | excluded | version | unexplained " +
		"|\n|---|---:|---:|---:|---:|---:|---:|\n")
	var reference, passes, later, never, version, wrong int
	for _, v := range o.verdicts {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %d |\n", v.file, v.reference, v.passes, v.later(), v.never(),
			v.version(), v.wrong())
		reference, passes, later = reference+v.reference, passes+v.passes, later+v.later()
		never, version, wrong = never+v.never(), version+v.version(), wrong+v.wrong()
	}
	fmt.Fprintf(b, "| **all** | **%d** | **%d** | **%d** | **%d** | **%d** | **%d** |\n\n", reference, passes, later,
		never, version, wrong)
	b.WriteString("An exclusion may name a failure outside of any test, or a test that the reference fails too, so a " +
		"row need not add up.\n\n")
}

// writeExclusions lists the exclusions of the classes that kind selects.
func (o *outcome) writeExclusions(b *strings.Builder, heading string, kind func(*class) bool) {
	count := map[*class]int{}
	for _, v := range o.verdicts {
		for c, n := range v.excluded {
			count[c] += n
		}
	}
	fmt.Fprintf(b, "### %s\n\n", heading)
	for i := range classes {
		c := &classes[i]
		if !kind(c) || count[c] == 0 {
			continue
		}
		fmt.Fprintf(b, "#### %s (%d): %s\n\n", c.name, count[c], c.means)
		for _, e := range o.excluded.all {
			if e.class == c {
				fmt.Fprintf(b, "- %s, `%s`: %s\n", e.file, strings.ReplaceAll(e.name, "`", "'"), e.reason)
			}
		}
		b.WriteString("\n")
	}
}
