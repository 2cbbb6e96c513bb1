package rdb

import "fmt"

// An Op is a byte where a value type could stand that says something else.
type Op byte

const (
	OpSlotInfo     Op = 0xF4 // slot, keys, volatile: cluster hint (version 12)
	OpFunction2    Op = 0xF5 // a function library's source (version 10)
	OpFunctionPre  Op = 0xF6 // the same from release candidates of 7.0; nobody reads it
	OpModuleAux    Op = 0xF7 // module data outside the keyspace
	OpIdle         Op = 0xF8 // the next key's idle time, in seconds
	OpFreq         Op = 0xF9 // the next key's LFU counter, one byte
	OpAux          Op = 0xFA // name, value
	OpResizeDB     Op = 0xFB // keys, volatile
	OpExpireTimeMs Op = 0xFC // the next key's deadline, Unix ms, 8 bytes
	OpExpireTime   Op = 0xFD // the next key's deadline, Unix seconds, 4 bytes
	OpSelectDB     Op = 0xFE
	OpEOF          Op = 0xFF

	// OpKey is not in the file: a Record that is a key and its value.
	OpKey Op = 0
	// OpPlain is not in the file either: a Record that stands for Keys plain keys.
	OpPlain Op = 1
)

// String names o as documentation of the format does.
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

// A Kind is the byte before a key that says how its value is written: a type and an encoding of it.
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

// A kindRow is what is known of one Kind without decoding it.
type kindRow struct {
	name  string // "hash (listpack)"; empty: no such kind
	since int    // the first version that may hold it
	skip  func(*cursor) error
}

// kinds is every value type of versions 1 to 12. A type that learns to be decoded gets a file of its own beside
// string.go; its row here stays as it is, because stepping over a value never decodes it.
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

// Known says whether k is a value type of any version up to MaxVersion.
func (k Kind) Known() bool { return kinds[k].name != "" }

// Since is the lowest version whose readers understand k; 0 if k is unknown.
func (k Kind) Since() int { return kinds[k].since }

// String names the type and its form in the file: "hash (listpack)".
func (k Kind) String() string {
	if !k.Known() {
		return fmt.Sprintf("value type %d", byte(k))
	}
	return kinds[k].name
}

// What a node of KindListQuicklist2 is.
const (
	NodePlain  = 1 // one element as it is
	NodePacked = 2 // a listpack
)
