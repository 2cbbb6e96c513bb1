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
	DeleteSyncFiles  setting.Bool // rdb-del-sync-files: a primary's file goes once it is loaded, if nothing here saves
	Sanitize         setting.Enum[Sanitize]
	SaveDelay        setting.Int // µs a key; negative: one µs every so many keys
	LoadDelay        setting.Int
	LoadingInterval  setting.Int // bytes of a file between two looks at clients
	FileCompression  setting.Enum[FileCompression]
	SaverConcurrency setting.Int
	ModuleData       setting.Enum[ModuleData]
	Version          setting.Int // the newest RDB version that readers of our files know
}

// A Rule asks for a save when at least Changes were made and Seconds have passed since the last.
type Rule struct{ Seconds, Changes int64 }

// Sanitize says whose payloads are looked through to the last byte before they are believed.
type Sanitize int

const (
	SanitizeNo Sanitize = iota
	SanitizeYes
	SanitizeClients
)

// ModuleData says what becomes of what a file has of modules that are not here, beside the keys.
type ModuleData int

const (
	RefuseModuleData ModuleData = iota
	SkipModuleData
)

// FileCompression is what a whole file is wrapped in.
type FileCompression int

const (
	CompressNone FileCompression = iota
	CompressZstd
	CompressS2
)

// Rows are the directives of this package.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewValue("save", &s.Rules, []Rule{{3600, 1}, {300, 100}, {60, 10000}},
			setting.Codec[[]Rule]{Parse: parseRules, Format: formatRules, Lines: ruleLines}, setting.MultiArg),
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
		setting.NewInt("rdb-version", &s.Version, codec.CommonVersion,
			setting.Between(codec.CommonVersion, codec.NewestVersion)),
	}
}

var (
	errSaveRules = errors.New("Invalid save parameters")
	errFileName  = errors.New("dbfilename can't be a path, just a filename")
)

// parseRules reads pairs of seconds and changes; one empty argument is no rule at all. Later lines of a file add to the
// first.
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
		changes, err2 := int64(0), error(nil) // what CONFIG SET save "3600 " says after its blank counts as 0
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

// ruleLines is a line a rule, or one that says that there is none: without it the defaults would hold.
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
