package reactor

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"spindle/internal/setting"
	"spindle/protocol"
)

// Settings are the parameters that an operator may change while the reactor runs. Any goroutine may read and set them.
type Settings struct {
	MaxClients   setting.Int  // maxclients
	KeepAlive    setting.Int  // tcp-keepalive, seconds; 0: off. For later connections
	QueryBuffer  setting.Int  // client-query-buffer-limit
	TLSAccepts   setting.Int  // max-new-tls-connections-per-cycle
	ReplyLatency setting.Bool // measure how long replies take
	MaxBulk      setting.Int  // proto-max-bulk-len, for sessions that are not a protocol.Limiter
	Output       setting.Value[OutputLimits]
}

// OutputLimits are the three output-buffer limits, by protocol.Class.
type OutputLimits [3]OutputLimit

// An OutputLimit bounds the output that a connection holds because its peer does not read. 0 means no limit.
type OutputLimit struct {
	Hard    uint64
	Soft    uint64
	Seconds int64 // how long Soft may be passed
}

// classNames are the classes in the order of CONFIG GET.
var classNames = [3]string{protocol.ClassNormal: "normal", protocol.ClassReplica: "slave",
	protocol.ClassPubSub: "pubsub"}

// DefaultOutputLimits are Redis's: clients that send requests are trusted to read, subscribers and replicas are not.
var DefaultOutputLimits = OutputLimits{
	protocol.ClassReplica: {Hard: 256 << 20, Soft: 64 << 20, Seconds: 60},
	protocol.ClassPubSub:  {Hard: 32 << 20, Soft: 8 << 20, Seconds: 60},
}

// Rows returns the settings for CONFIG and the configuration file, and gives each its default.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewInt("maxclients", &s.MaxClients, 10000, setting.Between(1, math.MaxUint32)),
		setting.NewInt("max-new-tls-connections-per-cycle", &s.TLSAccepts, 1, setting.Between(1, 1000)),
		setting.NewInt("tcp-keepalive", &s.KeepAlive, 300, setting.Between(0, math.MaxInt32)),
		setting.NewMemory("client-query-buffer-limit", &s.QueryBuffer, 1<<30, setting.Between(1<<20, math.MaxInt64)),
		setting.NewBool("reply-latency", &s.ReplyLatency, true),
		setting.NewMemory("proto-max-bulk-len", &s.MaxBulk, 512<<20, setting.Between(1<<20, math.MaxInt64)),
		setting.NewValue("client-output-buffer-limit", &s.Output, DefaultOutputLimits, setting.Codec[OutputLimits]{
			Parse: parseOutputLimits, Format: formatOutputLimits, Lines: outputLimitLines,
		}, setting.MultiArg, setting.Apart),
	}
}

var (
	errLimitArguments = errors.New("Wrong number of arguments in buffer limit configuration.")
	errLimitClass     = errors.New("Invalid client class specified in buffer limit configuration.")
	errLimitNumbers   = errors.New("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
)

// parseOutputLimits reads "class hard soft seconds" any number of times. Classes that are not named keep their limits.
func parseOutputLimits(args []string, old OutputLimits, _ setting.How) (OutputLimits, error) {
	if len(args)%4 != 0 { // CONFIG SET with an empty value changes nothing
		return old, errLimitArguments
	}
	for ; len(args) > 0; args = args[4:] {
		class, ok := classNamed(args[0])
		if !ok {
			return old, errLimitClass
		}
		hard, hardOK := setting.ParseMemory(args[1])
		soft, softOK := setting.ParseMemory(args[2])
		seconds, err := strconv.ParseInt(args[3], 10, 32)
		if !hardOK || !softOK || err != nil || seconds < 0 {
			return old, errLimitNumbers
		}
		old[class] = OutputLimit{Hard: hard, Soft: soft, Seconds: seconds}
	}
	return old, nil
}

func classNamed(name string) (protocol.Class, bool) {
	switch strings.ToLower(name) {
	case "normal":
		return protocol.ClassNormal, true
	case "slave", "replica":
		return protocol.ClassReplica, true
	case "pubsub":
		return protocol.ClassPubSub, true
	}
	return 0, false
}

func formatOutputLimits(limits OutputLimits) string {
	words := make([]string, 0, len(limits))
	for class, l := range limits {
		words = append(words, fmt.Sprintf("%s %d %d %d", classNames[class], l.Hard, l.Soft, l.Seconds))
	}
	return strings.Join(words, " ")
}

func outputLimitLines(limits OutputLimits) []string {
	lines := make([]string, 0, len(limits))
	for class, l := range limits {
		name := classNames[class]
		if protocol.Class(class) == protocol.ClassReplica {
			name = "replica"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %d", name, setting.FormatMemory(l.Hard),
			setting.FormatMemory(l.Soft), l.Seconds))
	}
	return lines
}
