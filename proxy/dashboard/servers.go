package dashboard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"spindle/internal/reason"
	"spindle/protocol/respclient"
)

// A dialer connects to data servers and Sentinels.
type dialer struct {
	user, password string
	sentinel       string             // the password of Sentinels
	tls            func() *tls.Config // nil means no TLS
	timeout        time.Duration
}

// These are the time limits of a connection's begin and of a look, if server-timeout is longer. Tests raise them.
var (
	dialTime = 5 * time.Second
	lookTime = 3 * time.Second
)

// A link is one connection to a server. It is closed when the ctx with which it was opened ends.
type link struct {
	*respclient.Client
	address string
	release func() bool
}

// open connects to a data server and authenticates.
func (d *dialer) open(ctx context.Context, address string) (*link, error) {
	return d.dial(ctx, address, d.user, d.password)
}

// openSentinel connects to a Sentinel.
func (d *dialer) openSentinel(ctx context.Context, address string) (*link, error) {
	return d.dial(ctx, address, "", d.sentinel)
}

func (d *dialer) dial(ctx context.Context, address, user, password string) (*link, error) {
	dialing, cancel := context.WithTimeout(ctx, min(d.timeout, dialTime))
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(dialing, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", address, reason.Of(err))
	}
	if d.tls != nil {
		config := d.tls().Clone()
		if host, _, err := net.SplitHostPort(address); err == nil && config.ServerName == "" {
			config.ServerName = host
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(dialing); err != nil {
			conn.Close()
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		conn = secure
	}
	l := &link{Client: respclient.New(conn), address: address}
	l.SetTimeout(d.timeout)
	l.release = context.AfterFunc(ctx, func() { conn.Close() })
	switch {
	case password == "":
	case user == "":
		_, err = l.ask("AUTH", password)
	default:
		_, err = l.ask("AUTH", user, password)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *link) close() {
	l.release()
	_ = l.Close() // nothing is left to send
}

// ask sends one request and returns its reply. Errors are those of the connection, and error replies
// (respclient.ReplyError). Their text names the address.
func (l *link) ask(args ...any) (respclient.Value, error) {
	v, err := l.Do(args...)
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", l.address, err)
	}
	return v, err
}

// code returns the first word of an error reply. It returns "" for other errors.
func code(err error) string {
	if reply := respclient.ReplyError(""); errors.As(err, &reply) {
		return reply.Code()
	}
	return ""
}

// once sends a server one request on a new connection.
func (d *dialer) once(ctx context.Context, address string, args ...any) (respclient.Value, error) {
	l, err := d.open(ctx, address)
	if err != nil {
		return respclient.Value{}, err
	}
	defer l.close()
	return l.ask(args...)
}

// info returns the fields of some sections of INFO.
func (l *link) info(sections ...any) (map[string]string, error) {
	v, err := l.ask(append([]any{"INFO"}, sections...)...)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(v.Text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok && !strings.HasPrefix(name, "#") {
			fields[name] = value
		}
	}
	return fields, nil
}

// each runs f for all addresses concurrently and returns the results when all are done.
func each[T any](addresses []string, f func(address string) T) []T {
	results := make([]T, len(addresses))
	var all sync.WaitGroup
	for i, a := range addresses {
		all.Go(func() { results[i] = f(a) })
	}
	all.Wait()
	return results
}

// A ServerView is the current state of a server.
type ServerView struct {
	Address string `json:"address"`
	Zone    string `json:"zone,omitempty"`
	Node    string `json:"node,omitempty"` // in a cluster
	Role    string `json:"role"`           // "primary", "replica", or "unknown" while it does not answer
	Problem string `json:"problem,omitempty"`
	Server  string `json:"server,omitempty"` // "redis 7.0.15"
	Primary string `json:"primary,omitempty"`
	Link    string `json:"link,omitempty"` // the state of a replica's link: "up", "down" or "sync"
	Keys    int64  `json:"keys"`
	Memory  int64  `json:"memory"` // bytes
	Clients int64  `json:"clients"`
	Ops     int64  `json:"ops"` // commands a second
	Offset  int64  `json:"offset"`
	CPUMs   int64  `json:"cpu_ms"` // used since the start of the process
	Uptime  int64  `json:"uptime"` // seconds
	runID   string // differs for each process
}

// look queries the state of a server. Errors are in the view.
func (d *dialer) look(ctx context.Context, address string) ServerView {
	ctx, cancel := context.WithTimeout(ctx, min(d.timeout, lookTime))
	defer cancel()
	v := ServerView{Address: address, Role: "unknown"}
	l, err := d.open(ctx, address)
	if err != nil {
		v.Problem = err.Error()
		return v
	}
	defer l.close()
	fields, err := l.info()
	if err != nil {
		v.Problem = err.Error()
		return v
	}
	v.fill(fields)
	return v
}

func (v *ServerView) fill(fields map[string]string) {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64)
		return n
	}
	seconds := func(name string) int64 {
		f, _ := strconv.ParseFloat(fields[name], 64)
		return int64(f * 1000)
	}
	switch fields["role"] {
	case "master":
		v.Role = "primary"
	case "slave":
		v.Role, v.Primary = "replica", net.JoinHostPort(fields["master_host"], fields["master_port"])
		switch {
		case fields["master_sync_in_progress"] == "1":
			v.Link = "sync"
		default:
			v.Link = fields["master_link_status"]
		}
	}
	name := "redis"
	if fields["server_name"] != "" {
		name = fields["server_name"]
	}
	v.Server = name + " " + fields["redis_version"]
	if own := fields["spindle_version"]; own != "" {
		v.Server = "spindle " + own
	}
	for field, value := range fields {
		if strings.HasPrefix(field, "db") {
			v.Keys += keysIn(value)
		}
	}
	v.runID = fields["run_id"]
	v.Memory, v.Clients, v.Ops = number("used_memory"), number("connected_clients"), number("instantaneous_ops_per_sec")
	v.Uptime = number("uptime_in_seconds")
	v.CPUMs = seconds("used_cpu_user") + seconds("used_cpu_sys")
	if v.Offset = number("master_repl_offset"); v.Role == "replica" && fields["slave_repl_offset"] != "" {
		v.Offset = number("slave_repl_offset")
	}
}

// keysIn returns the number of keys in a field of INFO keyspace: keys=3,expires=0,…
func keysIn(value string) int64 {
	rest, ok := strings.CutPrefix(value, "keys=")
	if !ok {
		return 0
	}
	digits, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

// follow makes a server a replica of primary. If primary is "", follow makes the server a primary.
func (l *link) follow(primary string) error {
	host, port := "NO", "ONE"
	if primary != "" {
		var err error
		if host, port, err = net.SplitHostPort(primary); err != nil {
			return err
		}
	}
	_, err := l.ask("REPLICAOF", host, port)
	return err
}

// unwilling returns an error for a server that cannot join a group. Such a server would lose its data, is a node of a
// cluster, or is a Sentinel. With wipe, data is no obstacle.
func unwilling(fields map[string]string, address, primary string, wipe bool) error {
	var v ServerView
	v.fill(fields)
	switch {
	case fields["cluster_enabled"] == "1":
		return failed(http.StatusConflict, "wrong_server", "%s is a node of a cluster: it cannot be in a group", address)
	case fields["redis_mode"] == "sentinel":
		return failed(http.StatusConflict, "wrong_server", "%s is a Sentinel", address)
	case v.Role == "replica" && v.Primary == primary, wipe:
		return nil
	case v.Keys > 0:
		return failed(http.StatusConflict, "not_empty",
			"%s holds %d keys, which it would lose as a replica: empty it, or ask with wipe", address, v.Keys)
	}
	return nil
}
