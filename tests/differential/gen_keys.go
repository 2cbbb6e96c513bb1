package differential

import (
	"encoding/binary"

	"spindle/internal/crc"
)

// condition is an option of EXPIRE.
var condition = shuffled(lit("NX"), lit("XX"), lit("GT"), lit("LT"))

var keysTemplates = []template{
	{12, "del", []arg{times(1, 3, key)}},
	{6, "unlink", []arg{times(1, 3, key)}},
	{8, "exists", []arg{times(1, 4, key)}},
	{4, "touch", []arg{times(1, 4, key)}},
	{6, "type", []arg{key}},
	{10, "expire", []arg{key, ttlSeconds, condition}},
	{6, "pexpire", []arg{key, ttlMs, condition}},
	{6, "expireat", []arg{key, atSeconds, condition}},
	{6, "pexpireat", []arg{key, atMs, condition}},
	{6, "ttl", []arg{key}},
	{6, "pttl", []arg{key}},
	{5, "expiretime", []arg{key}},
	{5, "pexpiretime", []arg{key}},
	{6, "persist", []arg{key}},
	{8, "rename", []arg{key, key}},
	{6, "renamenx", []arg{key, key}},
	{10, "copy", []arg{key, key, shuffled(lit("REPLACE"), seq(lit("DB"), database))}},
	{6, "move", []arg{key, database}},
	{4, "swapdb", []arg{database, database}},
	{4, "dbsize", nil},
	{2, "keys", []arg{pattern}},
	{2, "randomkey", nil},
	{2, "scan", []arg{exactly("0"), lit("COUNT"), exactly("100000"),
		shuffled(seq(lit("MATCH"), pattern), seq(lit("TYPE"), anyOf("string", "list", "zset", "nosuch")))}},
	{2, "scan", []arg{integer, shuffled(seq(lit("MATCH"), pattern), seq(lit("COUNT"), integer),
		seq(lit("TYPE"), anyOf("string", "hash", "")))}},
	{8, "object|encoding", []arg{key}},
	{3, "object|refcount", []arg{key}},
	{2, "object|idletime", []arg{key}},
	{2, "object|freq", []arg{key}},
	{1, "object|nosuch", []arg{maybe(50, key)}},
	{1, "object", nil},
	{1, "flushdb", []arg{maybe(50, anyOf("ASYNC", "SYNC", "NOW"))}},
	{1, "flushall", []arg{maybe(50, anyOf("ASYNC", "SYNC", "NOW"))}},
	{3, "dump", []arg{key}},
	{6, "restore", []arg{key, restoreTTL, payload, shuffled(lit("REPLACE"), lit("ABSTTL"), seq(lit("IDLETIME"), integer),
		seq(lit("FREQ"), integer))}},
	{3, "restore", []arg{key, atMs, payload, lit("ABSTTL"), maybe(70, lit("REPLACE"))}},
}

// restoreTTL adds 0, or a TTL as for PEXPIRE.
func restoreTTL(g *generator) {
	if g.chance(60) {
		g.add("0")
	} else {
		ttlMs(g)
	}
}

// payload adds DUMP's payload of a short string, in the version that every server reads. Sometimes a byte is changed or
// missing.
func payload(g *generator) {
	mark := len(g.args)
	short(g)
	text := g.args[mark]
	b := append([]byte{0, byte(len(text))}, text...)
	b = binary.LittleEndian.AppendUint16(b, 10)
	b = binary.LittleEndian.AppendUint64(b, crc.Update64(0, b))
	switch g.rng.IntN(10) {
	case 0:
		b[g.rng.IntN(len(b))] ^= 1 << g.rng.IntN(8)
	case 1:
		b = b[:g.rng.IntN(len(b))]
	}
	g.args[mark] = string(b)
}
