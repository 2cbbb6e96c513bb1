package rdb

import "fmt"

// An Op is a byte that stands in place of a key's type and means something else.
type Op byte

const (
	OpSlotInfo     Op = 0xF4 // slot, keys, volatile: cluster hint (version 12)
	OpFunction2    Op = 0xF5 // a function library's source (version 10)
	OpFunctionPre  Op = 0xF6 // the same from release candidates of 7.0; unsupported
	OpModuleAux    Op = 0xF7 // module data outside the keyspace
	OpIdle         Op = 0xF8 // the next key's idle time, in seconds
	OpFreq         Op = 0xF9 // the next key's LFU counter, one byte
	OpAux          Op = 0xFA // name, value
	OpResizeDB     Op = 0xFB // keys, volatile
	OpExpireTimeMs Op = 0xFC // the next key's deadline, Unix ms, 8 bytes
	OpExpireTime   Op = 0xFD // the next key's deadline, Unix seconds, 4 bytes
	OpSelectDB     Op = 0xFE
	OpEOF          Op = 0xFF

	// OpKey is not in files. It marks a Record that is a key with its value.
	OpKey Op = 0
	// OpPlain is not in files. It marks a Record that stands for Keys plain keys.
	OpPlain Op = 1
)

// String returns o's name in the format's documentation.
func (o Op) String() string {
	switch o {
	case OpSlotInfo:
		return "SLOT_INFO"
	case OpFunction2:
		return "FUNCTION2"
	case OpFunctionPre:
		return "FUNCTION_PRE_GA"
	case OpModuleAux:
		return "MODULE_AUX"
	case OpIdle:
		return "IDLE"
	case OpFreq:
		return "FREQ"
	case OpAux:
		return "AUX"
	case OpResizeDB:
		return "RESIZEDB"
	case OpExpireTimeMs:
		return "EXPIRETIME_MS"
	case OpExpireTime:
		return "EXPIRETIME"
	case OpSelectDB:
		return "SELECTDB"
	case OpEOF:
		return "EOF"
	case OpKey:
		return "KEY"
	case OpPlain:
		return "KEYS"
	}
	return fmt.Sprintf("opcode %d", byte(o))
}

// A Kind is the byte before a key. It gives the value's type and its encoding in the file.
type Kind byte

const (
	KindString          Kind = 0
	KindList            Kind = 1
	KindSet             Kind = 2
	KindZSet            Kind = 3
	KindHash            Kind = 4
	KindZSet2           Kind = 5
	KindModulePre       Kind = 6
	KindModule2         Kind = 7
	KindHashZipmap      Kind = 9
	KindListZiplist     Kind = 10
	KindSetIntset       Kind = 11
	KindZSetZiplist     Kind = 12
	KindHashZiplist     Kind = 13
	KindListQuicklist   Kind = 14
	KindStream          Kind = 15
	KindHashListpack    Kind = 16
	KindZSetListpack    Kind = 17
	KindListQuicklist2  Kind = 18
	KindStream2         Kind = 19
	KindSetListpack     Kind = 20
	KindStream3         Kind = 21
	KindHashTTLPre      Kind = 22
	KindHashTTLPackPre  Kind = 23
	KindHashTTL         Kind = 24
	KindHashTTLListpack Kind = 25
)

// A kindRow describes one Kind without decoding it.
type kindRow struct {
	name  string // "hash (listpack)"; empty: no such kind
	since int    // the first version with this kind
	skip  func(*cursor) error
}

// kinds has every value type of versions 1 to 12. These rows only skip values; package codec decodes them.
var kinds = [256]kindRow{
	KindString:          {"string", 1, skipText},
	KindList:            {"list (linked)", 1, skipTexts(1)},
	KindSet:             {"set (table)", 1, skipTexts(1)},
	KindZSet:            {"sorted set (scores as text)", 1, skipZSet},
	KindHash:            {"hash (table)", 1, skipTexts(2)},
	KindZSet2:           {"sorted set (binary scores)", 8, skipZSet2},
	KindModulePre:       {"module value of a pre-release", 8, nil},
	KindModule2:         {"module value", 8, skipModule},
	KindHashZipmap:      {"hash (zipmap)", 2, skipText},
	KindListZiplist:     {"list (ziplist)", 2, skipText},
	KindSetIntset:       {"set (intset)", 2, skipText},
	KindZSetZiplist:     {"sorted set (ziplist)", 2, skipText},
	KindHashZiplist:     {"hash (ziplist)", 4, skipText},
	KindListQuicklist:   {"list (quicklist of ziplists)", 7, skipTexts(1)},
	KindStream:          {"stream", 9, skipStream(1)},
	KindHashListpack:    {"hash (listpack)", 10, skipText},
	KindZSetListpack:    {"sorted set (listpack)", 10, skipText},
	KindListQuicklist2:  {"list (quicklist of listpacks)", 10, skipQuicklist2},
	KindStream2:         {"stream (version 2)", 10, skipStream(2)},
	KindSetListpack:     {"set (listpack)", 11, skipText},
	KindStream3:         {"stream (version 3)", 11, skipStream(3)},
	KindHashTTLPre:      {"hash with field deadlines, of a pre-release", 12, skipHashTTL(false)},
	KindHashTTLPackPre:  {"hash with field deadlines (listpack), of a pre-release", 12, skipText},
	KindHashTTL:         {"hash with field deadlines", 12, skipHashTTL(true)},
	KindHashTTLListpack: {"hash with field deadlines (listpack)", 12, skipHashTTLListpack},
}

// Known reports whether k is a value type of any version up to MaxVersion.
func (k Kind) Known() bool { return kinds[k].name != "" }

// Since returns the lowest version with k; 0 if k is unknown.
func (k Kind) Since() int { return kinds[k].since }

// String returns the type and its form in the file, such as "hash (listpack)".
func (k Kind) String() string {
	if !k.Known() {
		return fmt.Sprintf("value type %d", byte(k))
	}
	return kinds[k].name
}

// The kinds of nodes in KindListQuicklist2.
const (
	NodePlain  = 1 // one element, verbatim
	NodePacked = 2 // a listpack
)
