package proxy

import (
	"fmt"
	"testing"
)

// TestRedirects: MOVED and ASK are read, and nonsense is refused. A host that is not known is that of the server.
func TestRedirects(t *testing.T) {
	for line, want := range map[string]string{
		"-MOVED 3999 127.0.0.1:6381\r\n": "3999 127.0.0.1:6381", "-ASK 0 db1.example:1\r\n": "0 db1.example:1",
		"-MOVED 1 ::1:6381\r\n": "1 [::1]:6381", "-MOVED 1 [::1]:6381\r\n": "1 [::1]:6381",
		"-MOVED 1 :6381\r\n": "1 asked:6381", "-MOVED 1 ?:6381\r\n": "1 asked:6381", "-MOVED -1 h:1\r\n": "no",
		"-MOVED x h:1\r\n": "no", "-MOVED 1 h\r\n": "no", "-MOVED 1 h:65536\r\n": "no", "-MOVED 1 h:x\r\n": "no",
		"-MOVED 1\r\n": "no", "-MOVED\r\n": "no",
	} {
		got := "no"
		if slot, addr, ok := target(errorOf([]byte(line)), "asked:7000"); ok {
			got = fmt.Sprint(slot, " ", addr)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}
