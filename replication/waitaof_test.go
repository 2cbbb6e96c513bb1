package replication

import (
	"fmt"
	"testing"

	"spindle/engine/client"
)

// A slowDisk is an append-only file that has nothing on disk until synced is set.
type slowDisk struct {
	noDisk
	synced bool
}

func (*slowDisk) On() bool                     { return true }
func (d *slowDisk) Synced(*client.Client) bool { return d.synced }

// TestWaitAOFAfterALostReplica: a replica confirms, and leaves before this server's own disk has the write. WAITAOF
// then waits for the next replica.
func TestWaitAOFAfterALostReplica(t *testing.T) {
	p := newPrimary(t)
	disk := &slowDisk{}
	p.settings.Disk = disk
	first, _ := p.online()
	writer, _ := p.arrive()
	p.do(writer, "SET a 1", "WAITAOF 1 1 0")
	confirm := func(replica *client.Client) {
		p.do(replica, fmt.Sprintf("REPLCONF ACK %d FACK %d", writer.StreamOffset, writer.StreamOffset))
	}
	confirm(first)
	p.Closed(first)
	p.Do(func() {
		disk.synced = true
		p.Wake(writer)
	})
	if !writer.Is(client.Blocked) {
		t.Error("answered without a replica")
	}
	second, _ := p.online()
	confirm(second)
	if got := writer.Conn.(*socket).take(t, ""); got != "*2\r\n:1\r\n:1\r\n" {
		t.Errorf("WAITAOF replied %q", got)
	}
	if n := p.feed.diskWaits.count(); n != 0 {
		t.Errorf("replication.F4: %d clients left", n)
	}
}
