package bgsave

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"spindle/bgsave/codec"
	"spindle/internal/setting"
)

// Settings are the parameters of saving and loading.
type Settings struct {
	Rules            setting.Value[[]Rule]
	FileName         setting.String
	Compress         setting.Bool // LZF within the file
	Checksum         setting.Bool
	StopWrites       setting.Bool
	IncrementalSync  setting.Bool
	DeleteSyncFiles  setting.Bool // rdb-del-sync-files: delete a primary's file after loading it, if nothing here saves
	Sanitize         setting.Enum[Sanitize]
	SaveDelay        setting.Int // µs after each key; negative: 1 µs after one in so many keys
	LoadDelay        setting.Int
	LoadingInterval  setting.Int // bytes of a file between two looks at clients
	FileCompression  setting.Enum[FileCompression]
	SaverConcurrency setting.Int
	ModuleData       setting.Enum[ModuleData]
	UnsupportedKeys  setting.Enum[UnsupportedKeys]
	Version          setting.Enum[Version] // the newest RDB version that readers of this server's files know
	VersionCheck     setting.Enum[VersionCheck]
}

// A Rule asks for a save when there were at least Changes changes, and Seconds have passed since the last save.
type Rule struct{ Seconds, Changes int64 }

// Sanitize says whose payloads are checked deeply.
type Sanitize int

const (
	SanitizeNo Sanitize = iota
	SanitizeYes
	SanitizeClients
)

// ModuleData says what happens to a module's data that is not in keys, if this server lacks the module.
type ModuleData int

const (
	RefuseModuleData ModuleData = iota
	SkipModuleData
)

// UnsupportedKeys says what happens to a key in a file whose type this server does not have.
type UnsupportedKeys int

const (
	RefuseUnsupportedKeys UnsupportedKeys = iota
	SkipUnsupportedKeys
)

// VersionCheck says what happens to files and payloads of RDB versions that this server does not know.
type VersionCheck int

const (
	VersionStrict  VersionCheck = iota // they are refused
	VersionRelaxed                     // they are read up to the first thing that is not known
)

// Version is an RDB version to write.
type Version int

// FileCompression is the compression of a whole file.
type FileCompression int

const (
	CompressNone FileCompression = iota
	CompressZstd
	CompressS2
)

// Rows returns the directives of this package.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewValue("save", &s.Rules, []Rule{{3600, 1}, {300, 100}, {60, 10000}},
			setting.Codec[[]Rule]{Parse: parseRules, Format: formatRules, Lines: ruleLines}, setting.MultiArg,
			setting.AlwaysFile),
		setting.NewString("dbfilename", &s.FileName, "dump.rdb", setting.CheckString(checkFileName), setting.Protected),
		setting.NewBool("rdbcompression", &s.Compress, true),
		setting.NewBool("rdbchecksum", &s.Checksum, true, setting.Immutable),
		setting.NewBool("stop-writes-on-bgsave-error", &s.StopWrites, true),
		setting.NewBool("rdb-save-incremental-fsync", &s.IncrementalSync, true),
		setting.NewBool("rdb-del-sync-files", &s.DeleteSyncFiles, false),
		setting.NewEnum("sanitize-dump-payload", &s.Sanitize, SanitizeNo, []setting.Choice[Sanitize]{
			{Name: "no", Value: SanitizeNo}, {Name: "yes", Value: SanitizeYes}, {Name: "clients", Value: SanitizeClients}}),
		setting.NewInt("rdb-key-save-delay", &s.SaveDelay, 0, setting.Between(math.MinInt32, math.MaxInt32), setting.Hidden),
		setting.NewInt("key-load-delay", &s.LoadDelay, 0, setting.Between(math.MinInt32, math.MaxInt32), setting.Hidden),
		setting.NewInt("loading-process-events-interval-bytes", &s.LoadingInterval, 2<<20,
			setting.Between(1024, math.MaxInt32), setting.Hidden),
		setting.NewEnum("rdb-file-compression", &s.FileCompression, CompressNone, []setting.Choice[FileCompression]{
			{Name: "none", Value: CompressNone}, {Name: "zstd", Value: CompressZstd}, {Name: "s2", Value: CompressS2}}),
		setting.NewEnum("module-aux-data", &s.ModuleData, RefuseModuleData, []setting.Choice[ModuleData]{
			{Name: "refuse", Value: RefuseModuleData}, {Name: "skip", Value: SkipModuleData}}),
		setting.NewInt("rdb-savers", &s.SaverConcurrency, 0, setting.Between(0, 128)),
		setting.NewEnum("rdb-unsupported-keys", &s.UnsupportedKeys, RefuseUnsupportedKeys, []setting.Choice[UnsupportedKeys]{
			{Name: "refuse", Value: RefuseUnsupportedKeys}, {Name: "skip", Value: SkipUnsupportedKeys}}),
		setting.NewEnum("rdb-write-version", &s.Version, codec.CommonVersion, []setting.Choice[Version]{
			{Name: "10", Value: codec.CommonVersion}, {Name: "11", Value: 11}, {Name: "12", Value: codec.NewestVersion},
			{Name: "13", Value: codec.MemoryVersion}, {Name: "80", Value: codec.ValkeyVersion}}, setting.Also("rdb-version")),
		setting.NewEnum("rdb-version-check", &s.VersionCheck, VersionStrict, []setting.Choice[VersionCheck]{
			{Name: "strict", Value: VersionStrict}, {Name: "relaxed", Value: VersionRelaxed}}),
	}
}

var (
	errSaveRules = errors.New("Invalid save parameters")
	errFileName  = errors.New("dbfilename can't be a path, just a filename")
)

// parseRules reads pairs of seconds and changes. One empty argument removes all rules. Later lines of a configuration
// file add rules.
func parseRules(args []string, old []Rule, how setting.How) ([]Rule, error) {
	if len(args) == 1 && args[0] == "" {
		return []Rule{}, nil
	}
	if len(args)%2 != 0 {
		return nil, errSaveRules
	}
	rules := []Rule{}
	if how == setting.FromFileMore {
		rules = append(rules, old...)
	}
	for i := 0; i < len(args); i += 2 {
		seconds, err1 := strconv.ParseInt(args[i], 10, 64)
		changes, err2 := int64(0), error(nil) // an empty second number, as in CONFIG SET save "3600 ", counts as 0
		if args[i+1] != "" {
			changes, err2 = strconv.ParseInt(args[i+1], 10, 64)
		}
		if err1 != nil || err2 != nil || seconds < 1 || changes < 0 {
			return nil, errSaveRules
		}
		rules = append(rules, Rule{seconds, changes})
	}
	return rules, nil
}

func formatRules(rules []Rule) string { return strings.Join(pairs(rules), " ") }

// ruleLines returns one line per rule. Without rules it returns one empty rule, because otherwise the defaults would
// hold.
func ruleLines(rules []Rule) []string {
	if len(rules) == 0 {
		return []string{`""`}
	}
	return pairs(rules)
}

func pairs(rules []Rule) []string {
	texts := make([]string, len(rules))
	for i, r := range rules {
		texts[i] = strconv.FormatInt(r.Seconds, 10) + " " + strconv.FormatInt(r.Changes, 10)
	}
	return texts
}

func checkFileName(name string) error {
	if strings.ContainsAny(name, `/\`) {
		return errFileName
	}
	return nil
}
