package replication

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"spindle/internal/setting"
)

// FollowerSettings are the parameters of a replica.
type FollowerSettings struct {
	Of                 setting.Value[Address] // replicaof; the Follower changes it
	Unwritten          bool                   // Of is not written to the configuration file: nodes.conf has it
	User, Auth         setting.String         // masteruser, masterauth
	AnnounceIP, Source setting.String         // replica-announce-ip, bind-source-addr
	AnnouncePort       setting.Int
	Announced          setting.Bool // replica-announced
	Priority           setting.Int  // replica-priority
	StaleData          setting.Bool // replica-serve-stale-data
	ReadOnly           setting.Bool // replica-read-only
	IgnoreMemory       setting.Bool // replica-ignore-maxmemory
	IgnoreDiskErrors   setting.Bool // replica-ignore-disk-write-errors
	IgnoreUnknown      setting.Bool // replica-ignore-unknown-commands
	Load               setting.Enum[DisklessLoad]
	Errors             setting.Enum[OnError] // propagation-error-behavior
	unread             struct{ lazyFlush setting.Bool }
}

// Login returns masteruser and masterauth.
func (s *FollowerSettings) Login() (user, password string) { return s.User.Get(), s.Auth.Get() }

// A DisklessLoad is a value of repl-diskless-load: how a full copy is loaded.
type DisklessLoad int

const (
	LoadByFile DisklessLoad = iota
	LoadOnEmpty
	LoadBeside // swapdb
)

// An OnError says what a replica does when a command of its primary fails on it.
type OnError int

const (
	ErrorIgnored OnError = iota
	ErrorPanics
	ErrorPanicsOnReplicas
)

// An Address is where a server listens; the zero value is no server.
type Address struct {
	Host string
	Port int
}

const maxPort = 65535

// Rows returns the settings for CONFIG and the configuration file, and gives each its default.
func (s *FollowerSettings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewValue("replicaof", &s.Of, Address{}, setting.Codec[Address]{
			Parse: parseAddress, Format: formatAddress, Lines: func(p Address) []string {
				if p.Host == "" || s.Unwritten {
					return nil
				}
				return []string{formatAddress(p)}
			},
		}, setting.Also("slaveof"), setting.Immutable, setting.MultiArg),
		setting.NewString("bind-source-addr", &s.Source, ""),
		setting.NewString("masteruser", &s.User, "", setting.Sensitive, setting.Also("primaryuser")),
		setting.NewString("masterauth", &s.Auth, "", setting.Sensitive, setting.Also("primaryauth")),
		setting.NewString("replica-announce-ip", &s.AnnounceIP, "", setting.Also("slave-announce-ip")),
		setting.NewInt("replica-announce-port", &s.AnnouncePort, 0, setting.Between(0, maxPort),
			setting.Also("slave-announce-port")),
		setting.NewBool("replica-announced", &s.Announced, true),
		setting.NewInt("replica-priority", &s.Priority, 100, setting.Between(0, math.MaxInt32),
			setting.Also("slave-priority")),
		setting.NewBool("replica-serve-stale-data", &s.StaleData, true, setting.Also("slave-serve-stale-data")),
		setting.NewBool("replica-read-only", &s.ReadOnly, true, setting.Also("slave-read-only")),
		setting.NewBool("replica-lazy-flush", &s.unread.lazyFlush, false, setting.Also("slave-lazy-flush"),
			setting.Nothing("old data always goes in the background")),
		setting.NewBool("replica-ignore-maxmemory", &s.IgnoreMemory, true, setting.Also("slave-ignore-maxmemory")),
		setting.NewBool("replica-ignore-disk-write-errors", &s.IgnoreDiskErrors, false),
		setting.NewBool("replica-ignore-unknown-commands", &s.IgnoreUnknown, false),
		setting.NewEnum("repl-diskless-load", &s.Load, LoadByFile, []setting.Choice[DisklessLoad]{
			{Name: "disabled", Value: LoadByFile}, {Name: "on-empty-db", Value: LoadOnEmpty},
			{Name: "swapdb", Value: LoadBeside},
		}, setting.DenyLoading),
		setting.NewEnum("propagation-error-behavior", &s.Errors, ErrorIgnored, []setting.Choice[OnError]{
			{Name: "ignore", Value: ErrorIgnored}, {Name: "panic", Value: ErrorPanics},
			{Name: "panic-on-replicas", Value: ErrorPanicsOnReplicas},
		}),
	}
}

func parseAddress(args []string, _ Address, _ setting.How) (Address, error) {
	var none Address
	if len(args) != 2 {
		return none, setting.ErrArguments
	}
	if strings.EqualFold(args[0], "no") && strings.EqualFold(args[1], "one") {
		return none, nil
	}
	port, err := strconv.Atoi(args[1])
	if err != nil || port < 0 || port > maxPort {
		return none, errors.New("Invalid master port")
	}
	if !isOneWord(args[0]) {
		return none, errors.New("Invalid master host")
	}
	return Address{args[0], port}, nil
}

// isOneWord reports whether host has no blank, no quote and no line end. INFO and the configuration file show it
// without quotes.
func isOneWord(host string) bool {
	return !strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '"' || r == '\'' })
}

func formatAddress(p Address) string {
	if p.Host == "" {
		return ""
	}
	return p.Host + " " + strconv.Itoa(p.Port)
}
