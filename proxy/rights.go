package proxy

import (
	"strings"

	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/route"
)

// The proxy answers some commands itself that are not for everyone. The shards know the users and their rights. So a
// shard is asked first, on a connection of the client's user, with a call of the same command that changes nothing.
//
// proxy.A1. Such a command runs only after a shard has let this user's call pass. An error other than NOAUTH and NOPERM
// says that the user may. For INFO one answer counts until the client changes its user.
var rightProbes = map[string][]byte{
	"client|kill":    encode("CLIENT", "KILL", "ID", "0"),
	"client|list":    encode("CLIENT", "LIST", "ID", "0"),
	"client|pause":   encode("CLIENT", "PAUSE", "-1"),
	"client|unpause": encode("CLIENT", "PAUSE", "-1"), // UNPAUSE would end a pause of the shard
	"client|unblock": encode("CLIENT", "UNBLOCK", "0"),
	"config|get":     encode("CONFIG", "GET", ""),
	"config|set":     encode("CONFIG", "SET", "", ""),

	"info":                 encode("INFO", "-"),        // a section that there is not
	"pubsub":               encode("PUBSUB", "NUMPAT"), // servers before Redis 7 have no rows for its subcommands
	"pubsub|channels":      encode("PUBSUB", "CHANNELS", "-"),
	"pubsub|numsub":        encode("PUBSUB", "NUMSUB"),
	"pubsub|numpat":        encode("PUBSUB", "NUMPAT"),
	"pubsub|shardchannels": encode("PUBSUB", "SHARDCHANNELS", "-"),
	"pubsub|shardnumsub":   encode("PUBSUB", "SHARDNUMSUB"),

	"slowlog|get":     encode("SLOWLOG", "GET", "0"),
	"slowlog|len":     encode("SLOWLOG", "LEN"),
	"slowlog|reset":   encode("SLOWLOG", "GET", "0"), // RESET would reset the shard's
	"latency|latest":  encode("LATENCY", "LATEST"),
	"latency|history": encode("LATENCY", "HISTORY", ""),
	"latency|reset":   encode("LATENCY", "LATEST"),
	"latency|graph":   encode("LATENCY", "GRAPH", ""),
	"latency|doctor":  encode("LATENCY", "DOCTOR"),

	"latency|histogram": encode("LATENCY", "HISTOGRAM", ""),
	"config|rewrite":    encode("CONFIG", "SET", "", ""), // REWRITE would rewrite the shard's

	"config|resetstat": encode("CONFIG", "SET", "", ""), // RESETSTAT would reset the shard's
}

// A permission is a shard's answer for the current request.
type permission struct {
	row     *route.Row // that it is for; nil: none was asked for
	pending bool
	err     *protocol.Error // why the user may not
}

// clusterProbes are subcommands of CLUSTER that change nothing. A shard gets the request itself.
var clusterProbes = map[string]bool{"slots": true, "shards": true, "nodes": true, "info": true, "myid": true,
	"myshardid": true, "keyslot": true, "links": true, "replicas": true, "slaves": true}

// mayRun reports whether the current request may be answered by the proxy. If wait, the session is told of the answer.
func (s *session) mayRun(row *route.Row, args [][]byte, raw []byte) (wait bool, err *protocol.Error) {
	probe := rightProbes[row.Name]
	if s.w.plan.Special == route.Cluster && s.w.p.settings.Pose.Get() && clusterProbes[strings.ToLower(string(args[1]))] {
		probe = raw
	}
	if probe == nil || row.Name == "info" && s.informed == s.access {
		return false, nil
	}
	if p := s.permission; p.row == row && !p.pending {
		s.permission = permission{}
		if row.Name == "info" && p.err == nil {
			s.informed = s.access
		}
		return false, p.err
	}
	u, err := s.upstream(-1)
	if err != nil {
		return false, err
	}
	s.permission = permission{row: row, pending: true}
	s.retries++ // nothing else is served meanwhile
	u.push(call{to: (*permitted)(s), slot: -1, fixed: true}, probe)
	return true, nil
}

// A permitted takes the reply to such a call.
type permitted session

func (t *permitted) take(_ *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	s := (*session)(t)
	s.retries--
	if s.closed {
		return
	}
	s.permission.pending = false
	if s.permission.err = err; err == nil && refusal != scan.NotRefused {
		if answer := errorOf(p); answer.Code == "NOAUTH" || answer.Code == "NOPERM" {
			s.permission.err = answer
		}
	}
	s.goOn()
}
