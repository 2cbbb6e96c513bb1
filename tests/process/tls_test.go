package process

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// dialTLS connects and sends PING, because under TLS 1.3 a client learns only then that its certificate was refused.
func dialTLS(t testing.TB, port int, config *tls.Config) (*respclient.Client, *tls.Conn, error) {
	t.Helper()
	c, err := tls.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port), config)
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { c.Close() })
	client := respclient.New(c)
	client.SetTimeout(testkit.Slowly(time.Minute))
	_, err = client.Do("PING")
	return client, c, err
}

// TestTLS: all features for clients work under TLS, with every event loop.
func TestTLS(t *testing.T) {
	certs := testkit.NewCertificates(t)
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		t.Run(backend, func(t *testing.T) {
			port := testkit.FreePort(t)
			s := testkit.Start(t, append(certs.Directives(port), "--reactor-backend", backend, "--io-threads", "2")...)
			c, _, err := dialTLS(t, port, certs.Client(t, true))
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := dialTLS(t, port, certs.Client(t, false)); err == nil {
				t.Error("served without a certificate")
			}
			long := strings.Repeat("0123456789", 400_000)
			c.Must("SET", "k", long)
			if got := c.Must("GET", "k").Text; got != long || s.Do("GET", "k").Text != long {
				t.Error("a long value has changed")
			}
			var requests [][]any
			for i := range 3000 {
				requests = append(requests, []any{"RPUSH", "l", i})
			}
			if replies, err := c.Pipeline(requests...); err != nil || replies[2999].Int != 3000 {
				t.Errorf("a pipeline: %v", err)
			}
			heard, _, err := dialTLS(t, port, certs.Client(t, true))
			if err != nil {
				t.Fatal(err)
			}
			heard.Must("SUBSCRIBE", "ch")
			for i := range 50 {
				c.Must("PUBLISH", "ch", i)
			}
			for i := range 50 {
				if v, err := heard.Receive(); err != nil || v.Elems[2].Text != strconv.Itoa(i) {
					t.Fatalf("message %d: %v %v", i, v, err)
				}
			}
			want := fmt.Sprintf("listener2:name=tls,bind=127.0.0.1,port=%d\r\n", port)
			if info := s.Do("INFO", "server").Text; !strings.Contains(info, want) {
				t.Errorf("no %q in %s", want, info)
			}
			// This client does not use TLS.
			plain, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			plain.SetDeadline(time.Now().Add(testkit.Slowly(time.Minute)))
			io.WriteString(plain, "PING\r\n")
			if read, _ := io.ReadAll(plain); bytes.Contains(read, []byte("PONG")) {
				t.Errorf("served in the clear: %q", read)
			}
		})
	}
}

// TestTLSTools: redis-cli and redis-benchmark work with TLS.
func TestTLSTools(t *testing.T) {
	certs, port := testkit.NewCertificates(t), testkit.FreePort(t)
	testkit.Start(t, certs.Directives(port)...)
	args := []string{
		"--tls", "--cacert", certs.File("ca.crt"), "--cert", certs.File("client.crt"), "--key", certs.File("client.key"),
		"-p", strconv.Itoa(port),
	}
	if out, code := testkit.Run(t, time.Minute, "", testkit.Program(t, "redis-cli"),
		append(args, "SET", "k", "v")...); code != 0 || out != "OK\n" {
		t.Errorf("redis-cli: %d %q", code, out)
	}
	out, code := testkit.Run(t, testkit.Slowly(2*time.Minute), "", testkit.Program(t, "redis-benchmark"),
		append(args, "-n", "3000", "-c", "20", "-P", "4", "-q", "-d", "100", "-t", "set,get,lpush,lrange_100,mset")...)
	if code != 0 || !strings.Contains(out, "MSET") || strings.Contains(strings.ToLower(out), "error") {
		t.Errorf("redis-benchmark: %d %s", code, out)
	}
}

// TestTLSConfigSet: each CONFIG SET is accepted or refused as a whole, as by redis-server.
func TestTLSConfigSet(t *testing.T) {
	certs, port := testkit.NewCertificates(t), testkit.FreePort(t)
	other := testkit.NewCertificates(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	garbage := certs.File("garbage")
	os.WriteFile(garbage, []byte("nothing"), 0o600)
	number := strconv.Itoa(port)
	steps := [][]string{
		{"tls-port", number}, // without a certificate
		{"tls-replication", "yes"},
		{"tls-cert-file", certs.File("server.crt"), "tls-key-file", certs.File("server.key")},
		{"tls-port", number}, // without an authority
		{"tls-ca-cert-file", certs.File("ca.crt")},
		{"tls-port", strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)},
		{"tls-port", number},
		{"tls-cert-file", garbage},
		{"tls-key-file", other.File("server.key")},
		{"maxmemory", "100mb", "tls-cert-file", "/none", "tls-key-file", "/none"},
		{"tls-cert-file", other.File("server.crt"), "tls-key-file", other.File("server.key"), "maxmemory", "200mb"},
		{"tls-cert-file", certs.File("server.crt"), "tls-key-file", certs.File("server.key")},
		{"tls-replication", "yes"},
		{"tls-ca-cert-file", ""},
		{"tls-auth-clients", "no", "tls-ca-cert-file", ""},
		{"tls-auth-clients", "yes", "tls-replication", "no"},
		{"tls-ca-cert-file", ""},
		{"tls-ca-cert-file", garbage},
		{"tls-ca-cert-dir", filepath.Dir(certs.File("ca.crt"))},
		{"tls-protocols", "SSLv3"},
		{"tls-protocols", "TLSv1.2"},
		{"tls-ciphers", "NOTHING"},
		{"tls-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"},
		{"tls-ciphersuites", "NOTHING"},
		{"tls-prefer-server-ciphers", "yes"},
		{"tls-session-cache-size", "-1"},
		{"tls-session-cache-size", "10", "tls-session-cache-timeout", "60"},
		{"tls-session-caching", "no"},
		{"tls-auth-clients", "maybe"},
		{"tls-auth-clients", "optional"},
		{"tls-key-file-pass", "1234"},
		{"tls-client-cert-file", certs.File("client.crt"), "tls-client-key-file", certs.File("server.key")},
		{"tls-client-cert-file", certs.File("client.crt"), "tls-client-key-file", certs.File("client.key")},
		{"tls-port", "0"},
		{"tls-cert-file", garbage}, // not checked while there is no tls-port
	}
	run := func(s *testkit.Server) (replies []string) {
		t.Helper()
		var kept *respclient.Client
		for _, step := range steps {
			args := []any{"CONFIG", "SET"}
			for _, word := range step {
				args = append(args, word)
			}
			v, err := s.Ask(args...)
			if err != nil {
				t.Fatalf("%q: %v", step, err)
			}
			var values []string
			elems := s.Do("CONFIG", "GET", "tls-*", "maxmemory").Elems
			for i := 0; i < len(elems); i += 2 {
				name, value := elems[i].Text, elems[i+1].Text
				if value != "" && value != "no" && name != "tls-auth-clients-user" && name != "tls-auto-reload-interval" {
					values = append(values, name+" "+value)
				}
			}
			slices.Sort(values)
			replies = append(replies, fmt.Sprintf("%q: %s %q", step, v.Text, values))
			if kept == nil && len(step) == 2 && step[1] == number && v.Text == "OK" {
				if kept, _, err = dialTLS(t, port, certs.Client(t, true)); err != nil {
					t.Fatal(err)
				}
			}
			if kept != nil {
				kept.Must("PING") // keeps its connection during all changes
			}
		}
		return replies
	}
	ours := testkit.Start(t)
	got := run(ours)
	ours.Terminate()
	theirs := testkit.Redis(t)
	want := run(theirs)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

// TestTLSReload: new connections use the certificate that CONFIG SET has read, even if its file name is the same. Old
// connections stay open.
func TestTLSReload(t *testing.T) {
	certs, port := testkit.NewCertificates(t), testkit.FreePort(t)
	s := testkit.Start(t, certs.Directives(port)...)
	served := func() *big.Int {
		t.Helper()
		_, c, err := dialTLS(t, port, certs.Client(t, true))
		if err != nil {
			t.Fatal(err)
		}
		return c.ConnectionState().PeerCertificates[0].SerialNumber
	}
	kept, _, err := dialTLS(t, port, certs.Client(t, true))
	if err != nil {
		t.Fatal(err)
	}
	first := served()
	fresh := certs.Issue(t, "server").SerialNumber
	if served().Cmp(first) != 0 {
		t.Error("a file was read without a request")
	}
	s.Do("CONFIG", "SET", "tls-cert-file", certs.File("server.crt"), "tls-key-file", certs.File("server.key"))
	if served().Cmp(fresh) != 0 {
		t.Error("the new certificate is not served")
	}
	if v, err := kept.Do("PING"); err != nil || v.Text != "PONG" {
		t.Errorf("a connection from before: %v %v", v, err)
	}
	os.WriteFile(certs.File("server.key"), []byte("broken"), 0o600)
	if v, _ := s.Ask("CONFIG", "SET", "tls-key-file", certs.File("server.key")); !strings.Contains(v.Text,
		"Unable to update TLS configuration") {
		t.Errorf("a broken key: %v", v)
	}
	if served().Cmp(fresh) != 0 {
		t.Error("what a refused CONFIG SET left is not what was before")
	}
	if log := s.Log(); !strings.Contains(log, "Failed to load private key: "+certs.File("server.key")+
		": no private key in it") {
		t.Errorf("the log: %s", log)
	}
}

// TestTLSPorts: a port changes to TLS and back, and connections stay open.
func TestTLSPorts(t *testing.T) {
	certs, port := testkit.NewCertificates(t), testkit.FreePort(t)
	s := testkit.Start(t, append(certs.Directives(port), "--unixsocket", t.TempDir()+"/s")...)
	secure, _, err := dialTLS(t, port, certs.Client(t, true))
	if err != nil {
		t.Fatal(err)
	}
	secure.Must("CONFIG", "SET", "tls-port", "0")
	secure.Must("CONFIG", "SET", "port", port)
	plain, err := respclient.Dial("127.0.0.1:" + strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	plain.Must("PING")
	plain.Must("CONFIG", "SET", "port", "0")
	plain.Must("CONFIG", "SET", "tls-port", port)
	if _, _, err := dialTLS(t, port, certs.Client(t, true)); err != nil {
		t.Error(err)
	}
	// Both ports change in one call, in either order.
	plain.Must("CONFIG", "SET", "port", port, "tls-port", "0")
	plain.Must("CONFIG", "SET", "tls-port", port, "port", "0")
	if info := plain.Must("INFO", "server").Text; !strings.Contains(info, fmt.Sprintf("tcp_port:%d\r\n", port)) {
		t.Errorf("INFO: %s", info)
	}
	if v := secure.Must("PING"); v.Text != "PONG" {
		t.Errorf("the first connection: %v", v)
	}
	s.Terminate()
}

// TestTLSStart: a server whose certificates cannot be read does not start, and logs the reason.
func TestTLSStart(t *testing.T) {
	certs, port := testkit.NewCertificates(t), testkit.FreePort(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--tls-port", strconv.Itoa(port)}, []string{"No tls-cert-file configured!",
			"Failed to configure TLS. Check logs for more info."}},
		{append(certs.Directives(port), "--tls-key-file", "/none"),
			[]string{"Failed to load private key: /none", "Failed to configure TLS."}},
		{append(certs.Directives(port), "--tls-dh-params-file", "x"),
			[]string{"tls-dh-params-file: not in this version: keys are agreed on by elliptic curves"}},
	} {
		s := testkit.Launch(t, testkit.Spec{NoWait: true, Args: c.args})
		if code := s.Wait(testkit.Slowly(20 * time.Second)); code != 1 {
			t.Errorf("%q: exit code %d", c.args, code)
		}
		for _, want := range c.want {
			if !strings.Contains(s.Log(), want) {
				t.Errorf("no %q in %s", want, s.Log())
			}
		}
	}
}

// TestTLSReplica: a redis-server replica replicates over TLS: the first synchronisation and the stream after it.
func TestTLSReplica(t *testing.T) {
	certs, port := testkit.NewCertificates(t), testkit.FreePort(t)
	s := testkit.Start(t, certs.Directives(port)...)
	s.Do("DEBUG", "POPULATE", "20000", "key", "500")
	replica := testkit.Redis(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(port), "--tls-replication", "yes",
		"--tls-cert-file", certs.File("client.crt"), "--tls-key-file", certs.File("client.key"), "--tls-ca-cert-file",
		certs.File("ca.crt"))
	replica.AwaitInfo(testkit.Slowly(30*time.Second), "replication", "master_link_status", "up")
	for i := range 500 {
		s.Do("SET", fmt.Sprint("late", i), strings.Repeat("v", 1000))
	}
	s.Do("WAIT", "1", "10000")
	if ours, theirs := s.Do("DEBUG", "DIGEST").Text, replica.Do("DEBUG", "DIGEST").Text; ours != theirs {
		t.Errorf("digest %s, the replica's %s", ours, theirs)
	}
}

// TestTLSMetrics: /metrics counts handshakes.
func TestTLSMetrics(t *testing.T) {
	certs, port, admin := testkit.NewCertificates(t), testkit.FreePort(t), testkit.FreePort(t)
	testkit.Start(t, append(certs.Directives(port), "--admin-address", "127.0.0.1:"+strconv.Itoa(admin))...)
	dialTLS(t, port, certs.Client(t, true))
	dialTLS(t, port, certs.Client(t, false))
	for _, want := range []string{"spindle_tls_handshakes_total 2\n",
		"spindle_tls_handshakes_failed_total 1\n", "spindle_tls_handshakes 0\n"} {
		// A client's handshake may end before the server has seen that its certificate is missing.
		testkit.Until(t, testkit.Slowly(10*time.Second), want, func() error {
			_, text := fetch(t, "http://127.0.0.1:"+strconv.Itoa(admin)+"/metrics")
			if !strings.Contains(text, want) {
				return errors.New("it is not in /metrics")
			}
			return nil
		})
	}
}

// FuzzTLSConfigSet sets certificates with any content. The server keeps running and connections stay open. New
// connections use the last accepted certificate.
func FuzzTLSConfigSet(f *testing.F) {
	certs, port := testkit.NewCertificates(f), testkit.FreePort(f)
	s := testkit.Start(f, append(certs.Directives(port), "--tls-auth-clients", "no")...)
	cert, _ := os.ReadFile(certs.File("server.crt"))
	key, _ := os.ReadFile(certs.File("server.key"))
	f.Add(cert, key, "")
	f.Add(key, cert, "x")
	f.Add(cert[:len(cert)/2], key, "DEFAULT")
	f.Add([]byte{}, []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"), "@")
	kept, _, err := dialTLS(f, port, certs.Client(f, false))
	if err != nil {
		f.Fatal(err)
	}
	operator := s.Dial()
	f.Fuzz(func(t *testing.T, cert, key []byte, ciphers string) {
		os.WriteFile(certs.File("fuzz.crt"), cert, 0o600)
		os.WriteFile(certs.File("fuzz.key"), key, 0o600)
		if _, err := operator.Do("CONFIG", "SET", "tls-cert-file", certs.File("fuzz.crt"), "tls-key-file",
			certs.File("fuzz.key"), "tls-ciphers", ciphers); err != nil {
			t.Fatal(err)
		}
		if v, err := kept.Do("PING"); err != nil || v.Text != "PONG" {
			t.Fatalf("a connection from before: %v %v", v, err)
		}
		config := certs.Client(t, false)
		config.InsecureSkipVerify = true // the server may have another certificate
		if _, _, err := dialTLS(t, port, config); err != nil {
			t.Fatal(err)
		}
		operator.Must("CONFIG", "SET", "tls-cert-file", certs.File("server.crt"), "tls-key-file", certs.File("server.key"),
			"tls-ciphers", "")
	})
}
