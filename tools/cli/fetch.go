package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"spindle/internal/reason"
	"spindle/protocol/respclient"
)

// An origin has the options for fetching an RDB file from a server.
type origin struct {
	user, password              string
	tls, insecure               bool
	authority, certificate, key string
	name                        string
}

// fetch requests the data set of the server at address, like a replica that only wants the file. The server makes a
// snapshot and streams it. patience bounds the connection and each step before the stream.
//
// Shape: size is 0 if the server does not state it.
func (s *origin) fetch(address string, patience time.Duration) (stream io.ReadCloser, size int64, err error) {
	conn, err := s.dial(address, patience)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	c := respclient.New(conn)
	c.SetTimeout(patience)
	if s.password != "" {
		auth := []any{"AUTH", s.password}
		if s.user != "" {
			auth = []any{"AUTH", s.user, s.password}
		}
		if err := ask(c, auth...); err != nil {
			return nil, 0, err
		}
	}
	// A server that does not have these commands sends the stream in its older form.
	for _, args := range [][]any{{"REPLCONF", "capa", "eof"}, {"REPLCONF", "rdb-only", "1"}} {
		if refused := respclient.ReplyError(""); errors.As(ask(c, args...), &refused) && refused.Code() == "NOAUTH" {
			return nil, 0, refused
		}
	}
	c.SetTimeout(0) // the snapshot may take long; the server sends blank lines meanwhile
	c.Send("SYNC")
	if err := c.Flush(); err != nil {
		return nil, 0, err
	}
	for {
		text, err := c.Reader().ReadSlice('\n') // no longer than the reader's buffer
		if err != nil {
			return nil, 0, fmt.Errorf("waiting for the snapshot: %w", err)
		}
		line := strings.TrimRight(string(text), "\r\n")
		switch {
		case line == "":
			continue
		case strings.HasPrefix(line, "$EOF:"):
			return closer{c.Reader(), conn}, 0, nil // the file marks its own end
		case strings.HasPrefix(line, "$"):
			size, err := strconv.ParseInt(line[1:], 10, 64)
			if err != nil || size <= 0 {
				return nil, 0, fmt.Errorf("the server announces a snapshot with %q", line)
			}
			return closer{io.LimitReader(c.Reader(), size), conn}, size, nil
		}
		return nil, 0, fmt.Errorf("the server gives no snapshot: %s", harmless([]byte(strings.TrimPrefix(line, "-"))))
	}
}

// closer is a stream with its connection.
type closer struct {
	io.Reader
	io.Closer
}

// ask sends a request whose reply must not be an error.
func ask(c *respclient.Client, args ...any) error {
	v, err := c.Do(args...)
	if err != nil {
		return err
	}
	return v.Err()
}

// dial opens the connection.
func (s *origin) dial(address string, patience time.Duration) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errors.New("is no file, and no host:port")
	}
	dialer := &net.Dialer{Timeout: patience}
	if !s.tls {
		conn, err := dialer.Dial("tcp", address)
		if err != nil {
			return nil, errors.New(reason.Of(err))
		}
		return conn, nil
	}
	config := &tls.Config{ServerName: s.name, InsecureSkipVerify: s.insecure}
	if s.name == "" {
		config.ServerName = host
	}
	if s.authority != "" {
		text, err := os.ReadFile(s.authority)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", s.authority)
		}
	}
	if s.certificate != "" {
		pair, err := tls.LoadX509KeyPair(s.certificate, s.key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return tls.DialWithDialer(dialer, "tcp", address, config)
}
