package differential

// bitOffset is the offset of a bit: small, near 64 KiB, or out of range.
var bitOffset = oneOf(index, index, integer, exactly("8388607"), exactly("8388608"), exactly("524288"))

var (
	bitType  = anyOf("u8", "i8", "u1", "i1", "u63", "i64", "u64", "i65", "u0", "i5", "u13", "x8", "u", "8", "i-1")
	bitPlace = oneOf(bitOffset, bitOffset, exactly("#0"), exactly("#1"), exactly("#7"), exactly("#-1"), exactly("#x"))
	bitGet   = seq(lit("GET"), bitType, bitPlace)
	bitField = oneOf(bitGet, seq(lit("SET"), bitType, bitPlace, integer), seq(lit("INCRBY"), bitType, bitPlace, integer),
		seq(lit("OVERFLOW"), anyOf("WRAP", "SAT", "FAIL", "NO")))
	bitExtent = seq(index, index, maybe(50, anyOf("BIT", "BYTE", "NIB")))
)

var bitmapTemplates = []template{
	{12, "setbit", []arg{key, bitOffset, oneOf(exactly("0"), exactly("1"), exactly("1"), integer)}},
	{8, "getbit", []arg{key, bitOffset}},
	{8, "bitcount", []arg{key, maybe(60, bitExtent)}},
	{8, "bitpos", []arg{key, oneOf(exactly("0"), exactly("1"), integer), maybe(30, index), maybe(50, bitExtent)}},
	{8, "bitop", []arg{anyOf("AND", "OR", "XOR", "NAND"), key, times(1, 4, key)}},
	{4, "bitop", []arg{lit("NOT"), key, times(1, 2, key)}},
	{12, "bitfield", []arg{key, times(0, 4, bitField)}},
	{6, "bitfield_ro", []arg{key, times(0, 3, bitGet)}},
	{1, "bitfield_ro", []arg{key, times(1, 3, bitField)}},
}
