package reactor

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A recordWriter encrypts records of TLS 1.3 itself, after the handshake. So it can ask the server for new keys, which
// crypto/tls's clients cannot.
type recordWriter struct {
	t      *testing.T
	secret []byte // of the client's traffic
	seq    uint64
}

// takeOver makes a recordWriter of a client that has sent n records since its handshake. keys is what it has logged.
func takeOver(t *testing.T, keys string, n uint64) *recordWriter {
	t.Helper()
	_, text, _ := strings.Cut(keys, "CLIENT_TRAFFIC_SECRET_0 ")
	words := strings.Fields(text)
	if len(words) < 2 {
		t.Fatalf("the keys are %q", keys)
	}
	secret, err := hex.DecodeString(words[1])
	if err != nil {
		t.Fatal(err)
	}
	return &recordWriter{t, secret, n}
}

// expand is HKDF-Expand-Label of RFC 8446.
func (w *recordWriter) expand(label string, n int) []byte {
	label = "tls13 " + label
	out, err := hkdf.Expand(sha256.New, w.secret, "\x00"+string(byte(n))+string(byte(len(label)))+label+"\x00", n)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// record returns a record with data of this type.
func (w *recordWriter) record(kind byte, data string) []byte {
	block, err := aes.NewCipher(w.expand("key", 16))
	if err != nil {
		w.t.Fatal(err)
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		w.t.Fatal(err)
	}
	nonce, seq := w.expand("iv", 12), make([]byte, 12)
	binary.BigEndian.PutUint64(seq[4:], w.seq)
	for i := range nonce {
		nonce[i] ^= seq[i]
	}
	w.seq++
	header := []byte{23, 3, 3, 0, byte(len(data) + 1 + seal.Overhead())}
	return seal.Seal(header, nonce, append([]byte(data), kind), header)
}

// askForKeys returns a KeyUpdate that the server must answer with its own, and changes the client's key.
func (w *recordWriter) askForKeys() []byte {
	r := w.record(22, "\x18\x00\x00\x01\x01")
	w.secret, w.seq = w.expand("traffic upd", sha256.Size), 0
	return r
}

// TestKeysWhileAway: a client asks for new keys, and reads no answers, until the socket is full. With each request a
// batch goes away that has no reply. The client gets all answers when it reads, although it sends nothing more.
func TestKeysWhileAway(t *testing.T) {
	const asks, answer = 120, 27 // an answer has 27 bytes
	underTLS(t, func(t *testing.T, b Backend) {
		if b == Netpoll {
			return // its batches are never away
		}
		h := newTestHandler()
		absent := newAwayHandler(h)
		absent.always = true
		r, addr := serveHandler(t, absent, Options{Backend: b, Loops: 2})
		bare := dialBare(t, addr)
		if err := bare.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		var keys bytes.Buffer
		config := clientTLS()
		config.KeyLogWriter = &keys
		client := tls.Client(bare, config)
		p := &peer{t, client, bufio.NewReader(client)}
		p.send(command("NAME", "me"))
		p.expect("+OK\r\n")
		if client.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
			t.Skip("this processor has no instructions for AES, and TLS uses another cipher")
		}
		me := h.named("me").c.(*conn)
		w := takeOver(t, keys.String(), 1)
		if err := unix.SetsockoptInt(me.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the count of the first read", func() bool { return r.Stats().Reads > 0 })
		full, rounds := false, 0
		for ; !full; rounds++ {
			eventually(t, "the last batch", func() bool { // else it would wait for the lock, too
				h.mu.Lock()
				defer h.mu.Unlock()
				return h.turn >= uint64(1+rounds)
			})
			var all []byte
			for i := range asks {
				all = append(all, w.askForKeys()...)
				if i%15 == 14 { // crypto/tls closes a client that asks more often without sending data
					all = append(all, w.record(23, command("SILENT"))...)
				}
			}
			h.mu.Lock()
			reads := r.Stats().Reads
			if _, err := bare.Write(all); err != nil || rounds == 1000 {
				t.Fatal(rounds, err)
			}
			eventually(t, "the end of an iteration", func() bool { return r.Stats().Reads > reads })
			full = me.holdsOutput() // its loop rests
			h.mu.Unlock()
		}
		if n, err := io.ReadFull(bare, make([]byte, rounds*asks*answer)); err != nil {
			t.Errorf("%d bytes of %d: %v", n, rounds*asks*answer, err)
		}
	})
}
