package tlsconfig

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// A Watch reads the certificates again when their files have changed, for tls-auto-reload-interval.
//
// Owner: Tick is for the turn, or for Run. It starts a goroutine that reads, at most one at a time.
type Watch struct {
	Current *Current
	Use     func(server *tls.Config) // makes it the configuration of later handshakes
	Do      func(func())             // takes a turn, or a lock that CONFIG SET takes too
	Log     func(text string)

	next int64       // Unix ms: the earliest time of the next look
	busy atomic.Bool // a goroutine is reading
}

// Tick checks the files if the interval has passed.
func (w *Watch) Tick(nowMs int64) {
	interval := w.Current.Settings.Reload.Get() * 1000
	switch {
	case interval == 0 || !w.Current.Wanted():
		w.next = 0
	case w.next == 0:
		w.next = nowMs + interval
	case nowMs >= w.next && !w.busy.Swap(true):
		w.next = nowMs + interval
		go w.look()
	}
}

// Run is for a process without turns: it calls Tick each second, until stop is closed.
func (w *Watch) Run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case now := <-time.After(time.Second):
			w.Tick(now.UnixMilli())
		}
	}
}

// look reads the files outside the turn, and uses them if they have changed. Invalid files are not used, and are logged
// once.
func (w *Watch) look() {
	defer w.busy.Store(false)
	c := w.Current
	loads, sum := c.loads.Load(), c.Settings.sum()
	if sum == *c.read.Load() {
		return
	}
	configs, err := Build(c.Settings)
	w.Do(func() {
		if c.loads.Load() != loads {
			return // CONFIG SET has read them meanwhile, perhaps from other files
		}
		if c.read.Store(&sum); err != nil {
			c.Warn(err)
			w.Log("The TLS certificates have changed and are wrong: the old ones stay in use")
			return
		}
		c.install(configs)
		w.Use(configs.Server)
		w.Log("The TLS certificates have changed, and the new ones are in use")
	})
}

// sum returns a checksum of all files that Build reads. A file that cannot be read counts as an empty file.
func (s *Settings) sum() (sum [sha256.Size]byte) {
	h := sha256.New()
	add := func(path string) {
		text, _ := os.ReadFile(path) // Build reports an error
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(text)))
		_, _ = h.Write(size[:])
		_, _ = h.Write(text)
	}
	for _, path := range []string{s.Cert.Get(), s.Key.Get(), s.ClientCert.Get(), s.ClientKey.Get(), s.CAFile.Get()} {
		if path != "" {
			add(path)
		}
	}
	if dir := s.CADir.Get(); dir != "" {
		entries, _ := os.ReadDir(dir) // Build reports an error
		for _, e := range entries {
			if hashed.MatchString(e.Name()) {
				_, _ = h.Write([]byte(e.Name()))
				add(filepath.Join(dir, e.Name()))
			}
		}
	}
	h.Sum(sum[:0])
	return sum
}
