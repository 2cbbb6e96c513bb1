package replication

import (
	"fmt"
	"strings"

	"spindle/bgsave/rdb"
	"spindle/engine/command"
)

// Forms is a set of forms of data that only some servers read.
type Forms uint8

const (
	FieldDeadlines Forms = 1 << iota // of hashes: Redis 7.4 and Valkey 9 know them, each with its own RDB form
	Blooms                           // Bloom filters: a server with the module bf reads them
	redisFields                      // a payload with deadlines of fields in Redis's form
	valkeyFields                     // the same in Valkey's form
)

// Their words in REPLCONF capa.
const (
	capaFieldDeadlines = "hash-field-deadlines"
	capaBlooms         = "bloom"
)

// String names the first of the forms, and the servers that read it.
func (f Forms) String() string {
	switch {
	case f&FieldDeadlines != 0:
		return "deadlines of fields, which Redis reads from version 7.4 (RDB version 12) on, and Valkey from 9.0"
	case f&redisFields != 0:
		return "deadlines of fields in Redis's form, which Valkey does not read"
	case f&valkeyFields != 0:
		return "deadlines of fields in Valkey's form, which Redis does not read"
	}
	return "a Bloom filter, which needs the module bf"
}

// A Find is a key that holds one of the forms.
type Find struct {
	DB    int
	Key   string
	Forms Forms
}

// String is for operators.
func (x Find) String() string {
	return fmt.Sprintf("key '%.100s' of database %d has %s", x.Key, x.DB, x.Forms)
}

// lacking returns what a server of that version and with those modules, in INFO's words, cannot read. A version without
// numbers says nothing. A Valkey that is asked is older than 8: later ones say their version.
func lacking(version, modules string) (lacks Forms) {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return 0
	}
	lacks = valkeyFields
	if major < 7 || major == 7 && minor < 4 {
		lacks |= FieldDeadlines | redisFields
	}
	if !strings.Contains(modules, "name=bf,") {
		lacks |= Blooms
	}
	return lacks
}

// firstWithFields is the first version of Valkey with deadlines of fields.
const firstWithFields = 9

// lackingValkey returns what a Valkey of that version cannot read. Its module for Bloom filters has another form.
func lackingValkey(major int) Forms {
	if major < firstWithFields {
		return Blooms | FieldDeadlines | redisFields | valkeyFields
	}
	return Blooms | redisFields
}

// special returns the forms that a server must read to carry out a command; 0: all servers can.
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
	case command.Is(name, "RESTORE") && len(args) > 3 && len(args[3]) > 0:
		if kind, ok := rdb.KindOf(args[3]); ok {
			return FormsOf(kind)
		}
	}
	return 0
}

// FormsOf returns what a value written as kind needs of its reader.
func FormsOf(kind rdb.Kind) Forms {
	switch {
	case !kind.Known():
	case kind == rdb.KindModule2:
		return Blooms
	case kind == rdb.KindHash2:
		return FieldDeadlines | valkeyFields
	case kind.Since() >= rdb.KindHashTTL.Since():
		return FieldDeadlines | redisFields
	}
	return 0
}
