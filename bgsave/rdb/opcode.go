package rdb

import "fmt"

// An Op is a byte that stands in place of a key's type and means something else.
type Op byte

const (
	OpTemplate     Op = 0xF2 // a hash template: the field names that hashes share (Redis, version 15)
	OpKeyMeta      Op = 0xF3 // metadata that modules keep for the next key (Redis, version 13)
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
	// OpSlotImport is 0xF3 in Valkey's files: the state of a slot import that was not done.
	OpSlotImport Op = 2
	// OpPlain is not in files. It marks a Record that stands for Keys plain keys.
	OpPlain Op = 1
)

// String returns o's name in the format's documentation.
func (o Op) String() string {
	switch o {
	case OpTemplate:
		return "HASH_TEMPLATE"
	case OpKeyMeta:
		return "KEY_META"
	case OpSlotImport:
		return "SLOT_IMPORT"
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

// A Kind gives a value's type and its encoding in the file. Its low byte stands before the key. Kinds of Valkey whose
// byte has another meaning in Redis have valkeyOwn added.
type Kind uint16

const valkeyOwn Kind = 0x100

// Kinds is the length of tables by kind. It includes unused kinds.
const Kinds = 0x200

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
	KindStream4         Kind = 26
	KindStream5         Kind = 27
	KindArray           Kind = 28
	KindTmplPacked      Kind = 29
	KindTmplPackedRef   Kind = 30
	KindTmpl            Kind = 31
	KindTmplRef         Kind = 32

	KindHash2 = valkeyOwn | 22
)

// Of returns the kind that a byte stands for. It may be unknown.
func (d Dialect) Of(b byte) Kind {
	k := Kind(b)
	switch {
	case d == Redis:
	case k == KindHash2&0xff:
		return KindHash2
	case k > KindStream3: // Redis assigned these numbers after Valkey had forked
		return valkeyOwn | k
	}
	return k
}

// A kindRow describes one Kind without decoding it.
type kindRow struct {
	name  string // "hash (listpack)"; empty: no such kind
	since int    // the first version with this kind
	skip  func(*cursor) error
}

// kinds has every value type of versions 1 to 15, and of Valkey's version 80. These rows only skip values; package
// codec decodes them.
//
// Sources for the kinds that the reference servers of the tests do not write:
//   - Streams 4 and 5: librdb's change notes and tests (#93, #98) and two independent readers agree.
//   - Arrays: two independent readers and one writer agree.
//   - Templates: template.go.
var kinds = [Kinds]kindRow{
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
	KindStream4:         {"stream (version 4)", 13, skipStream(4)},
	KindStream5:         {"stream (version 5)", 14, skipStream(5)},
	KindArray:           {"array", 14, skipArray},
	KindTmplPacked:      {"hash (template, listpack)", 15, skipTemplatePacked},
	KindTmplPackedRef:   {"hash (template of the file, listpack)", 15, skipText},
	KindTmpl:            {"hash (template)", 15, skipTemplate},
	KindTmplRef:         {"hash (template of the file)", 15, skipTemplateRef},
	KindHash2:           {"hash with field deadlines (Valkey)", ValkeyVersion, skipHash2},
}

// Known reports whether k is a value type of any version that can be read.
func (k Kind) Known() bool { return kinds[k].name != "" }

// Since returns the lowest version with k, in k's dialect. It returns 0 if k is unknown.
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
