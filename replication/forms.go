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
	FieldDeadlines Forms = 1 << iota // of hashes: Redis 7.4 reads them, from RDB version 12 on
	Blooms                           // Bloom filters: a server with the module bf reads them
)

// Their words in REPLCONF capa.
const (
	capaFieldDeadlines = "hash-field-deadlines"
	capaBlooms         = "bloom"
)

// String names the first of the forms, and the servers that read it.
func (f Forms) String() string {
	if f&FieldDeadlines != 0 {
		return "deadlines of fields, which Redis reads from version 7.4 (RDB version 12) on"
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
// numbers says nothing.
func lacking(version, modules string) (lacks Forms) {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return 0
	}
	if major < 7 || major == 7 && minor < 4 {
		lacks |= FieldDeadlines
	}
	if !strings.Contains(modules, "name=bf,") {
		lacks |= Blooms
	}
	return lacks
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
	case kind.Since() >= rdb.KindHashTTL.Since():
		return FieldDeadlines
	}
	return 0
}
