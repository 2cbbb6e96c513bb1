package replication

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spindle/protocol"
)

// A Dialer connects to another server, from the local address source unless that is empty. It may wait, until ctx ends.
// Two goroutines may use the connection, one to read and one to write.
type Dialer func(ctx context.Context, address, source string) (net.Conn, error)

// Dial is the Dialer for connections in the clear.
func Dial(ctx context.Context, address, source string) (net.Conn, error) {
	var d net.Dialer
	if source != "" {
		ip, err := net.ResolveIPAddr("ip", source)
		if err != nil {
			return nil, err
		}
		d.LocalAddr = &net.TCPAddr{IP: ip.IP, Zone: ip.Zone}
	}
	return d.DialContext(ctx, "tcp", address)
}

// plainError returns an error of the network in the system's own words.
func plainError(err error) string {
	var code syscall.Errno
	if errors.As(err, &code) {
		text := code.Error()
		return strings.ToUpper(text[:1]) + text[1:]
	}
	return err.Error()
}

const (
	askLimit = 3 * time.Second // for a peer's answer
	askMax   = 1 << 20         // bytes of it
)

// askInfo asks the server at address for sections of INFO. It logs in if terms ask for that.
func askInfo(dial Dialer, address string, terms Terms, sections ...string) (texts []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	conn, err := dial(ctx, address, "")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(askLimit))
	in := bufio.NewReader(conn)
	if login, ok := terms.login(); ok {
		if _, err := conn.Write(wireOf(login.words)); err != nil {
			return nil, err
		}
		if line, err := in.ReadSlice('\n'); err != nil || line[0] != '+' {
			return nil, errors.Join(err, errors.New("it answers AUTH with "+string(bytes.TrimSpace(line))))
		}
	}
	if _, err := io.WriteString(conn, "INFO "+strings.Join(sections, "\r\nINFO ")+"\r\n"); err != nil {
		return nil, err
	}
	for range sections {
		text, err := readText(in)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// wireOf returns a command in RESP, for another server.
func wireOf(words []string) []byte {
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	return protocol.AppendCommand(nil, args)
}

// readText reads a bulk reply, such as INFO's. If anything else arrives, its error contains it.
func readText(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '$' {
		return "", fmt.Errorf("it answers %.100q", line)
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n < 0 || n > askMax {
		return "", fmt.Errorf("it announces %.20q bytes", line[1:])
	}
	text := make([]byte, n+len("\r\n"))
	_, err = io.ReadFull(in, text)
	return string(text[:n]), err
}

// infoField returns a field of INFO.
func infoField(text, name string) (value string, found bool) {
	_, rest, found := strings.Cut(text, "\n"+name+":")
	value, _, _ = strings.Cut(rest, "\r\n")
	return value, found
}

// survey asks a replica's server for its version, and returns the forms that it cannot read.
func survey(dial Dialer, address string) (version string, lacks Forms, err error) {
	texts, err := askInfo(dial, address, Terms{}, "server", "modules")
	if err != nil {
		return "", 0, err
	}
	version, _ = infoField(texts[0], "redis_version")
	return version, lacking(version, texts[1]), nil
}

// askVersion asks a primary for its version.
func askVersion(dial Dialer, address string, terms Terms) (version string, err error) {
	texts, err := askInfo(dial, address, terms, "server")
	if err != nil {
		return "", err
	}
	if version, found := infoField(texts[0], "valkey_version"); found {
		return version + " of Valkey", nil
	}
	version, found := infoField(texts[0], "redis_version")
	if !found {
		return "", errors.New("INFO has no redis_version")
	}
	return version, nil
}
