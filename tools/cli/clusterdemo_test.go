package cli

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"
)

// TestSlowNode: a busy node takes six seconds for the reply to SET-CONFIG-EPOCH, which it carries out once only. The
// demo waits for the reply.
func TestSlowNode(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					switch strings.TrimSpace(lines.Text()) {
					case "MYID":
						_, _ = conn.Write([]byte("+a\r\n"))
					case "SET-CONFIG-EPOCH":
						<-time.After(6 * time.Second)
						_, _ = conn.Write([]byte("+OK\r\n"))
					case "ADDSLOTSRANGE":
						_, _ = conn.Write([]byte("+OK\r\n"))
					}
				}
			}()
		}
	}()
	d := &demo{nodes: []*demoNode{{address: l.Addr().String()}}}
	if err := d.assign(); err != nil || d.nodes[0].id != "a" {
		t.Errorf("the node has the id %q: %v", d.nodes[0].id, err)
	}
}
