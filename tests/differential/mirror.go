package differential

import (
	"fmt"
	"slices"
	"strings"

	"spindle/protocol/respclient"
)

// Some commands change data at random, and the two servers choose different elements. Such a call is mirrored.
// redis-server runs it. Spindle runs it on a copy, only for the reply, and then removes redis-server's choice from the
// original. SORT with STORE is mirrored, too: redis-server sometimes refuses it (see knownDifferences), and then
// spindle stores nothing.

// isMirrored reports whether a call has to be mirrored.
func (c *call) isMirrored() bool {
	return c.isName("spop") || c.isName("sort") && containsFold(c.args, "STORE")
}

// tame returns a similar call that changes nothing at random.
func (c *call) tame() *call {
	tame := *c
	if c.isName("spop") {
		if len(c.args) > 1 {
			tame.args = []string{"SCARD", c.args[1]}
		}
		return &tame
	}
	at := slices.IndexFunc(c.args, func(a string) bool { return strings.EqualFold(a, "STORE") })
	for at >= 0 {
		tame.args = slices.Delete(slices.Clone(tame.args), at, min(at+2, len(tame.args)))
		at = slices.IndexFunc(tame.args, func(a string) bool { return strings.EqualFold(a, "STORE") })
	}
	return &tame
}

// mirrorKey is the key of spindle's copies.
const mirrorKey = "\x00mirror"

// playMirrored sends one mirrored call. In a transaction it sends a call without randomness instead.
func (p *pair) playMirrored(c *call) *difference {
	if p.queues[c.conn].open || len(c.args) < 2 {
		d := p.playTogether([]call{*c.tame()})
		if d != nil && d.call != nil {
			d.call = c
		}
		return d
	}
	d := &difference{call: c}
	p.ref.sorted = p.ref.sorted || c.isName("sort")
	want, err := p.reference.links[c.conn].one(c.args...)
	if err != nil {
		d.what, d.lost = fmt.Sprintf("%s: %v", p.reference.name, err), true
		return d
	}
	if d.what, err = p.mirror(c, want); err != nil {
		d.what, d.lost = fmt.Sprintf("%s: %v", p.subject.name, err), true
	}
	if d.what == "" {
		return nil
	}
	return d
}

// mirror makes spindle's data equal redis-server's after its reply want, and compares the replies.
func (p *pair) mirror(c *call, want respclient.Value) (what string, err error) {
	link, key := p.subject.links[c.conn], c.args[1]
	if c.isName("sort") && want.Text == notDouble {
		c = c.tame()
	}
	if c.isName("sort") || want.Kind == '-' || want.Null || len(want.Strings()) == 0 && want.Kind != '$' {
		got, err := link.one(c.args...)
		if err != nil || judge(p.ref, c.args, want, got) {
			return "", err
		}
		return fmt.Sprintf("%s answers %v\n%s answers %v", p.reference.name, want, p.subject.name, got), nil
	}
	taken := want.Strings()
	if want.Kind == '$' {
		taken = []string{want.Text}
	}
	onCopy := slices.Clone(c.args)
	onCopy[1] = mirrorKey
	removal := append([]string{"SREM", key}, taken...)
	replies, err := link.all([]string{"SMEMBERS", key}, []string{"COPY", key, mirrorKey, "REPLACE"}, onCopy,
		[]string{"DEL", mirrorKey}, removal)
	if err != nil {
		return "", err
	}
	had, got, removed := replies[0].Strings(), replies[2], replies[4]
	members := got.Strings()
	if got.Kind == '$' {
		members = []string{got.Text}
	}
	if got.Kind != want.Kind || got.Null || len(members) != len(taken) || !distinct(members, had) {
		return fmt.Sprintf("%s answers %v\n%s, of %.300q, answers %v", p.reference.name, want, p.subject.name, had, got), nil
	}
	if removed.Int != int64(len(taken)) {
		return fmt.Sprintf("%s answers %v, but %s has %.300q there", p.reference.name, want, p.subject.name, had), nil
	}
	return "", p.sameEncoding(c.conn, key)
}

// distinct reports whether members are all different and all elements of all.
func distinct(members, all []string) bool {
	left := map[string]bool{}
	for _, m := range all {
		left[m] = true
	}
	for _, m := range members {
		if !left[m] {
			return false
		}
		delete(left, m)
	}
	return true
}

// sameEncoding restores redis-server's value in spindle if the encodings differ. Removing several elements at once may
// leave another encoding than removing them one by one.
func (p *pair) sameEncoding(conn int, key string) error {
	want, err := p.reference.links[conn].one("OBJECT", "ENCODING", key)
	if err != nil {
		return err
	}
	got, err := p.subject.links[conn].one("OBJECT", "ENCODING", key)
	if err != nil || judge(p.ref, []string{"object", "encoding", key}, want, got) {
		return err
	}
	dump, err := p.reference.links[conn].one("DUMP", key)
	if err != nil {
		return err
	}
	deadline, err := p.subject.links[conn].one("PEXPIRETIME", key)
	if err != nil {
		return err
	}
	restore := []string{"RESTORE", key, fmt.Sprint(max(deadline.Int, 0)), dump.Text, "REPLACE", "ABSTTL"}
	if reply, err := p.subject.links[conn].one(restore...); err != nil || reply.Kind != '+' {
		return fmt.Errorf("RESTORE of what the reference dumped: %v, %v", reply, err)
	}
	return nil
}

// one sends one request and reads its reply.
func (l *link) one(args ...string) (respclient.Value, error) {
	replies, err := l.all(args)
	if err != nil {
		return respclient.Value{}, err
	}
	return replies[0], nil
}

// all sends requests and reads their replies.
func (l *link) all(requests ...[]string) (replies []respclient.Value, err error) {
	var batch []byte
	for _, args := range requests {
		c := call{args: args}
		batch = c.appendTo(batch)
	}
	if err := l.exchange(batch, nil, len(requests)); err != nil {
		return nil, fmt.Errorf("%.100q: %w", strings.Join(requests[0], " "), err)
	}
	for i := range requests {
		replies = append(replies, parse(l.reply(i)))
	}
	return replies, nil
}
