package replication

import (
	"fmt"
	"strings"

	"spindle/bgsave/rdb"
	"spindle/engine/command"
	"spindle/internal/logging"
)

// Forms is a set of data formats that only some servers read.
type Forms uint16

const (
	FieldDeadlines Forms = 1 << iota // of hashes: Redis 7.4 and Valkey 9 know them, each with its own RDB form
	Blooms                           // Bloom filters: a server with the module bf reads them
	redisFields                      // a payload with deadlines of fields in Redis's form
	valkeyFields                     // the same in Valkey's form
	payload11                        // a payload of RDB version 11; those of later versions follow
	payload12
	payload13
	payload14
	payload15
	payload80 // a payload of Valkey 9
	Messages  // message names that a stream remembers of producers: Redis knows them since 8.6

	payloads = payload11 | payload12 | payload13 | payload14 | payload15 | payload80
)

// The names of forms in REPLCONF capa.
const (
	capaFieldDeadlines = "hash-field-deadlines"
	capaBlooms         = "bloom"
	capaPayloads       = "rdb-15" // payloads up to this version, and Valkey's
	capaMessages       = "stream-messages"
)

// readsPayload are the first versions of Redis that read payloads of RDB versions 11 to 15. Every Valkey reads payloads
// of version 11.
var readsPayload = [...]struct{ major, minor int }{{7, 2}, {7, 4}, {8, 6}, {8, 8}, {8, 10}}

// String names the first of the forms, and the servers that read it.
func (f Forms) String() string {
	switch {
	case f&FieldDeadlines != 0:
		return "deadlines of fields, which Redis reads from version 7.4 (RDB version 12) on, and Valkey from 9.0"
	case f&redisFields != 0:
		return "deadlines of fields in Redis's form, which Valkey does not read"
	case f&valkeyFields != 0:
		return "deadlines of fields in Valkey's form, which Redis does not read"
	case f&Blooms != 0:
		return "a Bloom filter, which needs the module bf"
	case f&Messages != 0:
		return "messages of producers (XADD IDMP), which Redis knows from version 8.6 on, and Valkey does not"
	case f&payload80 != 0:
		return "a payload of RDB version 80, which Valkey reads from 9.0 on"
	}
	for i, since := range readsPayload {
		if f&(payload11<<i) != 0 {
			return fmt.Sprintf("a payload of RDB version %d, which Redis reads from version %d.%d on",
				11+i, since.major, since.minor)
		}
	}
	return "a form that is not known"
}

// noDB is the database of a Find that is not a key but the payload of FUNCTION RESTORE.
const noDB = -1

// A Find is a key that holds one of the forms.
type Find struct {
	DB    int
	Key   string
	Forms Forms
}

// Public implements logging.Private. It is String without the key.
func (x Find) Public() string {
	if x.Key != "" {
		x.Key = logging.Redacted
	}
	return x.String()
}

// String returns text for operators.
func (x Find) String() string {
	if x.DB == noDB {
		return "FUNCTION RESTORE has " + x.Forms.String()
	}
	return fmt.Sprintf("key '%.100s' of database %d has %s", x.Key, x.DB, x.Forms)
}

// lacking returns the forms that a server with this version and these modules, in INFO's words, cannot read. A version
// that is not numbers gives no information. A Valkey that must be asked is older than 8, because later ones say their
// version.
func lacking(version, modules string) (lacks Forms) {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return 0
	}
	lacks = valkeyFields | payload80
	for i, since := range readsPayload {
		if major < since.major || major == since.major && minor < since.minor {
			lacks |= payload11 << i
		}
	}
	if major < 8 || major == 8 && minor < 6 {
		lacks |= Messages
	}
	if major < 7 || major == 7 && minor < 4 {
		lacks |= FieldDeadlines | redisFields
	}
	if !strings.Contains(modules, "name=bf,") {
		lacks |= Blooms
	}
	return lacks
}

// firstWithFields is the first version of Valkey that reads deadlines of hash fields.
const firstWithFields = 9

// lackingValkey returns the forms that a Valkey of this version cannot read. Its module for Bloom filters uses another
// format.
func lackingValkey(major int) Forms {
	lacks := Blooms | Messages | redisFields | payloads&^payload11
	if major < firstWithFields {
		return lacks | FieldDeadlines | valkeyFields
	}
	return lacks &^ payload80
}

// special returns the forms that a server must read to run a command, or 0 if all servers can run it.
func special(args [][]byte) Forms {
	if len(args) < 2 {
		return 0
	}
	switch name := args[0]; {
	case len(name) > 3 && command.Is(name[:3], "BF."):
		return Blooms
	case command.Is(name, "HEXPIRE"), command.Is(name, "HPEXPIRE"), command.Is(name, "HEXPIREAT"),
		command.Is(name, "HPEXPIREAT"), command.Is(name, "HPERSIST"):
		return FieldDeadlines
	case command.Is(name, "XADD") && len(args) > 2 && command.Is(args[2], "IDMP"), // where the primary puts it
		command.Is(name, "XCFGSET"), command.Is(name, "XIDMPRECORD"):
		return Messages
	case (command.Is(name, "RESTORE") || command.Is(name, "RESTORE-ASKING")) && len(args) > 3 && len(args[3]) > 0:
		if kind, ok := rdb.KindOf(args[3]); ok {
			return FormsOf(kind) | payloadForm(rdb.PayloadVersion(args[3]))
		}
	case command.Is(name, "FUNCTION") && command.Is(args[1], "RESTORE") && len(args) > 2:
		return payloadForm(rdb.PayloadVersion(args[2]))
	}
	return 0
}

// payloadForm returns the form of a payload of this RDB version.
func payloadForm(version int) Forms {
	switch {
	case version >= rdb.ValkeyVersion:
		return payload80
	case version > rdb.MaxVersion:
		return payload15
	case version > 10:
		return payload11 << (version - 11)
	}
	return 0
}

// FormsOf returns the forms that the reader of a value written as kind must know.
func FormsOf(kind rdb.Kind) Forms {
	switch {
	case !kind.Known():
	case kind == rdb.KindModule2:
		return Blooms
	case kind == rdb.KindHash2:
		return FieldDeadlines | valkeyFields
	case kind.Since() == rdb.KindHashTTL.Since(): // no data here have later kinds
		return FieldDeadlines | redisFields
	}
	return 0
}
