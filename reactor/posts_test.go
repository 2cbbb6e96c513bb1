package reactor

import (
	"fmt"
	"strings"
	"testing"

	"spindle/protocol"
)

// A poster is a testHandler whose batches run in turn 9. Posts of earlier turns arrive while a batch is being served.
type poster struct {
	*testHandler
	posts []string
	reply string
}

func (h *poster) Serve(b *protocol.Batch) {
	for i, p := range h.posts {
		sessionOf(b.Session).c.Post(uint64(i), []byte(p))
	}
	b.Reply.B = append(b.Reply.B, h.reply...)
	b.Done, b.Turn = len(b.Requests), 9
}

// TestPostsStayInOrder: posts of earlier turns keep their order and leave before a batch's reply, whatever output waits
// already and whether there is a reply.
func TestPostsStayInOrder(t *testing.T) {
	long := strings.Repeat("x", pieceCopy)
	for _, waiting := range []int{0, 1, postPieces - 1, postPieces, postPieces + 1, 2 * postPieces} {
		for _, reply := range []string{"", "+OK\r\n"} {
			for _, posts := range [][]string{{"a", "b", "c"}, {"a", long, "b", "c"}, {long, "a", "b", long}} {
				t.Run(fmt.Sprintf("%d wait, reply %q, first post has %d bytes", waiting, reply, len(posts[0])),
					func(t *testing.T) {
						h := &poster{newTestHandler(), posts, reply}
						r := &Reactor{handler: h, settings: &Settings{}}
						r.settings.Rows()
						l := newLoop(r, 0)
						l.kit, l.longReplies, l.host = newKit(1), &chunkStore{}, nowhere{}
						c := &conn{}
						c.setLoop(l)
						c.open()
						want := ""
						for i := range waiting {
							c.Post(0, fmt.Appendf(nil, "%d ", i))
							want += fmt.Sprintf("%d ", i)
						}
						c.OnTraffic([]byte(command("PING")))
						want += strings.Join(posts, "") + reply
						c.out.seal(&l.replies)
						got := ""
						for _, p := range c.out.queue {
							got += string(p.b)
						}
						if got != want {
							shorten := strings.NewReplacer(long, "<long>")
							t.Errorf("%q, want %q", shorten.Replace(got), shorten.Replace(want))
						}
					})
			}
		}
	}
}
