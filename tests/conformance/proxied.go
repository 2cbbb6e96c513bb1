package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"spindle/protocol/respclient"
	"spindle/proxy/route"
)

const proxiedHeading = "## What the proxy does with each command"

// proxied writes the page's section about the proxy. server and proxy are the addresses of a shard and of a proxy in
// front of it. It sends the proxy those commands that the proxy answers itself, because the proxy may refuse some.
func proxied(server, proxy string) (string, error) {
	c, err := respclient.DialTimeout(server, answerLimit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	reply, err := c.Do("COMMAND")
	if err != nil {
		return "", err
	}
	table, err := route.Read(reply, route.Redis)
	if err != nil {
		return "", err
	}
	groups, reasons := map[string][]string{}, map[string][]string{}
	ordered := slices.SortedFunc(slices.Values(table.Rows()),
		func(a, b *route.Row) int { return strings.Compare(a.Name, b.Name) })
	for _, r := range ordered {
		name := "`" + strings.ReplaceAll(strings.ToUpper(r.Name), "|", " ") + "`"
		group := r.Class.String()
		switch {
		case r.Container():
			continue
		case r.Class == route.Refused:
			reasons[r.Reason] = append(reasons[r.Reason], name)
			continue
		case r.Class == route.Forward && !r.Keyed():
			group = "any"
		case r.Class == route.Split, r.Class == route.All:
			name += " (" + r.Merge.String() + ")"
		case r.Class == route.Local:
			serves, reason, err := serves(proxy, r)
			if err != nil {
				return "", err
			}
			if !serves {
				reasons[reason] = append(reasons[reason], name)
				continue
			}
		}
		groups[group] = append(groups[group], name)
	}
	var b strings.Builder
	b.WriteString(
		proxiedHeading +
			"\n\n`spindle --proxy` decides by the COMMAND of its shards. These are the decisions on spindle's own " +
			"commands; those of other servers follow the same rules. A command without keys is refused unless its shards are known.\n\n")
	for _, g := range []struct{ class, text string }{
		{"forward", "To the shard of its keys. Keys of several slots are refused with CROSSSLOT"},
		{"split", "Cut by slot. The replies become one, in brackets how"},
		{"all", "To all shards. The replies become one, in brackets how"},
		{"any", "To any shard, because each has the same answer"},
		{"pinned", "On a connection to the shard that no other client uses meanwhile; XREAD and XREADGROUP only with BLOCK"},
		{"local", "By the proxy itself, or for the proxy"},
	} {
		fmt.Fprintf(&b, "- %s: %s.\n", g.text, strings.Join(groups[g.class], ", "))
	}
	b.WriteString("\nThese are refused:\n\n| commands | reason |\n|---|---|\n")
	var rows []string
	for reason, names := range reasons {
		rows = append(rows, fmt.Sprintf("| %s | %s |\n", strings.Join(names, ", "), reason))
	}
	slices.Sort(rows)
	b.WriteString(strings.Join(rows, "") + "\n")
	return b.String(), nil
}

const answerLimit = 60 * time.Second

// serves sends a command of class Local with the fewest arguments that it may have. It reports whether the proxy serves
// the command, and otherwise the reason.
func serves(proxy string, r *route.Row) (yes bool, reason string, err error) {
	c, err := respclient.DialTimeout(proxy, answerLimit)
	if err != nil {
		return false, "", err
	}
	defer c.Close()
	c.SetTimeout(answerLimit)
	var request []any
	for word := range strings.SplitSeq(r.Name, "|") {
		request = append(request, word)
	}
	for len(request) < max(r.Arity, -r.Arity) {
		request = append(request, "1")
	}
	v, err := c.Do(request...)
	if err != nil {
		var slow net.Error
		if errors.As(err, &slow) && slow.Timeout() {
			return false, "", fmt.Errorf("%s at the proxy: %w", r.Name, err)
		}
		return true, "", nil // the command closes the connection
	}
	if v.Err() != nil {
		if _, reason, refused := strings.Cut(v.Text, "is not served by the proxy"); refused {
			if reason = strings.TrimPrefix(reason, ": "); reason == "" {
				reason = "not yet"
			}
			return false, reason, nil
		}
		if strings.Contains(v.Text, "cluster support disabled") {
			return false, "the proxy is no node of a cluster", nil
		}
	}
	return true, "", nil
}

// startProxied starts a shard and a proxy with the program server, and returns the page's section about the proxy.
func startProxied(ctx context.Context, server string) (section string, err error) {
	dir, err := os.MkdirTemp("", "proxied")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	ports, err := freePorts(3)
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(ctx)
	var running []*exec.Cmd
	defer func() {
		stop()
		for _, c := range running {
			c.Wait()
		}
	}()
	start := func(port string, args ...string) error {
		c := exec.CommandContext(ctx, server, append(args, "--port", port, "--bind", "127.0.0.1")...)
		c.Dir = dir
		if err := c.Start(); err != nil {
			return err
		}
		running = append(running, c)
		return answers("127.0.0.1:" + port)
	}
	shard := "127.0.0.1:" + ports[0]
	if err := start(ports[0], "--dir", dir, "--save", "", "--cluster-enabled", "yes", "--cluster-port", ports[1]); err !=
		nil {
		return "", err
	}
	if err := serveAll(shard); err != nil {
		return "", err
	}
	if err := start(ports[2], "--proxy", "--proxy-cluster", shard); err != nil {
		return "", err
	}
	return proxied(shard, "127.0.0.1:"+ports[2])
}

// serveAll makes the server at addr a cluster of one node.
func serveAll(addr string) error {
	c, err := respclient.DialTimeout(addr, answerLimit)
	if err != nil {
		return err
	}
	defer c.Close()
	v, err := c.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	if err == nil {
		err = v.Err()
	}
	return err
}

// answers waits until a server answers PING.
func answers(addr string) (err error) {
	for begun := time.Now(); time.Since(begun) < answerLimit; <-time.After(20 * time.Millisecond) {
		var c *respclient.Client
		if c, err = respclient.DialTimeout(addr, answerLimit); err != nil {
			continue
		}
		c.SetTimeout(answerLimit)
		var v respclient.Value
		if v, err = c.Do("PING"); err == nil {
			err = v.Err()
		}
		c.Close()
		if err == nil {
			return nil
		}
	}
	return err
}

// freePorts returns n ports that are free now.
func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}
