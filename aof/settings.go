package aof

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"spindle/internal/setting"
)

// Settings are the parameters of the append-only file.
type Settings struct {
	On              setting.Bool
	FileName        setting.String
	DirName         setting.String
	Fsync           setting.Enum[Policy]
	NoSyncOnRewrite setting.Bool
	Percentage      setting.Int // growth since the last rewrite that starts another
	MinSize         setting.Int
	Truncated       setting.Bool // a log whose end is missing may be loaded
	Preamble        setting.Bool // bases are RDB files
	Timestamps      setting.Bool
	IncrementalSync setting.Bool
	KeepHistory     setting.Bool
	Past            setting.Value[keep]
	BackupDir       setting.String
	SealedTTL       setting.Int    // backup-sealed-ttl, seconds
	Preload         setting.String // preload-file: loaded at start instead of the data set; "": none
	BufferLimit     setting.Int    // bytes that may wait for the disk before writers are held
}

// A Policy says when written bytes must be synced.
type Policy int

const (
	EverySecond Policy = iota
	Always             // before the reply leaves
	Never              // when the system chooses
)

// Rows returns the directives of this package.
func (s *Settings) Rows() []setting.Row {
	const maxInt, maxLong = math.MaxInt32, math.MaxInt64
	return []setting.Row{
		setting.NewBool("appendonly", &s.On, false, setting.DenyLoading),
		setting.NewString("appendfilename", &s.FileName, "appendonly.aof", setting.Immutable,
			setting.CheckString(baseName("appendfilename", "filename"))),
		setting.NewString("appenddirname", &s.DirName, "appendonlydir", setting.Immutable,
			setting.CheckString(baseName("appenddirname", "dirname"))),
		setting.NewEnum("appendfsync", &s.Fsync, EverySecond, []setting.Choice[Policy]{
			{Name: "everysec", Value: EverySecond}, {Name: "always", Value: Always}, {Name: "no", Value: Never}}),
		setting.NewBool("no-appendfsync-on-rewrite", &s.NoSyncOnRewrite, false),
		setting.NewInt("auto-aof-rewrite-percentage", &s.Percentage, 100, setting.Between(0, maxInt)),
		setting.NewMemory("auto-aof-rewrite-min-size", &s.MinSize, 64<<20, setting.Between(0, maxLong)),
		setting.NewBool("aof-load-truncated", &s.Truncated, true),
		setting.NewBool("aof-use-rdb-preamble", &s.Preamble, true),
		setting.NewBool("aof-timestamp-enabled", &s.Timestamps, false),
		setting.NewBool("aof-rewrite-incremental-fsync", &s.IncrementalSync, true),
		setting.NewBool("aof-disable-auto-gc", &s.KeepHistory, false, setting.Hidden),
		setting.NewValue("aof-keep-history", &s.Past, keep{}, setting.Codec[keep]{
			Parse: func(args []string, _ keep, _ setting.How) (keep, error) { return parseKeep(args) }, Format: formatKeep,
		}, setting.MultiArg),
		setting.NewString("backupdirname", &s.BackupDir, "backupdir", setting.Fixed,
			setting.CheckString(baseName("backupdirname", "dirname"))),
		setting.NewInt("backup-sealed-ttl", &s.SealedTTL, 0, setting.Between(0, maxInt)),
		setting.NewString("preload-file", &s.Preload, "", setting.Fixed, setting.CheckString(checkPreload)),
		setting.NewMemory("aof-buffer-limit", &s.BufferLimit, 256<<20, setting.Between(1<<20, maxLong)),
	}
}

// checkPreload refuses a text that is not KIND:PATH.
func checkPreload(text string) error {
	kind, path, _ := strings.Cut(text, ":")
	if text != "" && (kind != "aof" && kind != "rdb" || path == "") {
		return errors.New("preload-file must be aof:<manifest> or rdb:<file>")
	}
	return nil
}

// parseKeep reads aof-keep-history, which is "no", or a time and a size. One of the two may be left out.
func parseKeep(args []string) (k keep, err error) {
	if len(args) == 1 && (args[0] == "no" || args[0] == "") {
		return keep{}, nil
	}
	for _, word := range args {
		seconds, isTime := parseAge(word)
		bytes, isSize := setting.ParseMemory(word)
		isSize = isSize && strings.HasSuffix(strings.ToLower(word), "b") // m is minutes
		switch {
		case isTime && k.seconds == 0:
			k.seconds = seconds
		case isSize && bytes <= math.MaxInt64 && k.bytes == 0:
			k.bytes = int64(bytes)
		default:
			return keep{}, errKeep
		}
	}
	if !k.on() {
		return keep{}, errKeep
	}
	return k, nil
}

var errKeep = errors.New("argument must be no, or a time such as 24h or 7d and a size such as 50gb, or one of them")

// ageUnits are the seconds of each time unit.
var ageUnits = []struct {
	letter  string
	seconds int64
}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}}

// parseAge reads a time such as 24h.
func parseAge(word string) (seconds int64, ok bool) {
	for _, u := range ageUnits {
		if digits, is := strings.CutSuffix(word, u.letter); is {
			n, err := strconv.ParseInt(digits, 10, 64)
			return n * u.seconds, err == nil && n > 0 && n <= math.MaxInt32
		}
	}
	return 0, false
}

// formatKeep returns the text of aof-keep-history.
func formatKeep(k keep) string {
	var words []string
	if k.seconds > 0 {
		for _, u := range ageUnits {
			if k.seconds%u.seconds == 0 {
				words = append(words, strconv.FormatInt(k.seconds/u.seconds, 10)+u.letter)
				break
			}
		}
	}
	if k.bytes > 0 {
		words = append(words, setting.FormatMemory(uint64(k.bytes)))
	}
	if len(words) == 0 {
		return "no"
	}
	return strings.Join(words, " ")
}

// baseName refuses a text that is not a plain file name.
func baseName(directive, kind string) func(string) error {
	return func(name string) error {
		switch {
		case name == "":
			return errors.New(directive + " can't be empty")
		case strings.ContainsAny(name, `/\`):
			return errors.New(directive + " can't be a path, just a " + kind)
		}
		return nil
	}
}
