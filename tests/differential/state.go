package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"spindle/protocol/respclient"
)

// usedDatabases lists the databases that calls can reach.
var usedDatabases = []int{0, 1, 2, 3, 15}

// sameState compares all data of the two servers by digest. Then it compares a few keys and SCANs in detail. Without
// rng it compares all keys.
func (p *pair) sameState(rng *rand.Rand) (what string, err error) {
	digests, err := p.ask("DEBUG", "DIGEST")
	if err != nil {
		return "", err
	}
	// Perhaps only some keys have expired on one server. Then no difference is found below.
	differ := rng == nil || !equal(digests[0], digests[1])
	for _, db := range usedDatabases {
		if _, err := p.ask("SELECT", db); err != nil {
			return "", err
		}
		what, err := p.sameDatabase(rng, differ)
		if err != nil || what != "" {
			return fmt.Sprintf("database %d: %s", db, what), err
		}
	}
	if digests, err = p.ask("DEBUG", "DIGEST"); err != nil || equal(digests[0], digests[1]) || p.digestsByScore() ||
		differ && p.digestsOfFields() {
		return "", err
	}
	return fmt.Sprintf("DEBUG DIGEST: %v, %v; but no key differs", digests[0], digests[1]), nil
}

// ask sends one request to the reference and to the subject.
func (p *pair) ask(args ...any) (replies [2]respclient.Value, err error) {
	for i, s := range []*side{p.reference, p.subject} {
		if replies[i], err = s.inspector.Do(args...); err != nil {
			return replies, fmt.Errorf("%s: %v: %w", s.name, args, err)
		}
	}
	return replies, nil
}

// sameDatabase compares the selected database: all of its keys, or a few. The SCANs first remove expired keys on both
// servers. A SCAN outside the turn only leaves them out, so SCANs of one key follow if the sizes differ.
func (p *pair) sameDatabase(rng *rand.Rand, all bool) (what string, err error) {
	var walked [2][]string
	for i, s := range []*side{p.reference, p.subject} {
		if walked[i], err = walk(s.inspector, 5); err != nil {
			return "", err
		}
	}
	sizes, err := p.ask("DBSIZE")
	if err != nil {
		return "", err
	}
	if !equal(sizes[0], sizes[1]) {
		for _, s := range []*side{p.reference, p.subject} {
			if _, err := walk(s.inspector, 1); err != nil {
				return "", err
			}
		}
		if sizes, err = p.ask("DBSIZE"); err != nil {
			return "", err
		}
	}
	lists, err := p.ask("KEYS", "*")
	if err != nil {
		return "", err
	}
	if !equal(sizes[0], sizes[1]) || !sameMembers(nil, lists[0], lists[1]) {
		return fmt.Sprintf("%v keys %.1000v, and %v keys %.1000v", sizes[0], lists[0], sizes[1], lists[1]), nil
	}
	keys := lists[0].Strings()
	slices.Sort(keys)
	for i, s := range []*side{p.reference, p.subject} {
		if !slices.Equal(walked[i], keys) {
			return fmt.Sprintf("%s: SCAN walks %.1000q of %.1000q", s.name, walked[i], keys), nil
		}
	}
	if !all {
		rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		keys = keys[:min(len(keys), 2)]
	}
	for _, key := range keys {
		if what, err := p.sameKey(key); err != nil || what != "" {
			return what, err
		}
	}
	return "", nil
}

// walk returns every key that SCANs of about count keys find, once.
func walk(c *respclient.Client, count int) (keys []string, err error) {
	for cursor := "0"; ; {
		step, err := c.Do("SCAN", cursor, "COUNT", count)
		if err != nil || len(step.Elems) != 2 {
			return nil, fmt.Errorf("SCAN: %v, %v", step, err)
		}
		keys = append(keys, step.Elems[1].Strings()...)
		if cursor = step.Elems[0].Text; cursor == "0" {
			slices.Sort(keys)
			return slices.Compact(keys), nil
		}
	}
}

// sameKey compares all properties of one key, and makes each server restore the other's dump.
func (p *pair) sameKey(key string) (what string, err error) {
	for _, args := range [][]any{{"TYPE", key}, {"OBJECT", "ENCODING", key}, {"PTTL", key}} {
		replies, err := p.ask(args...)
		if err != nil {
			return "", err
		}
		words := make([]string, len(args))
		for i := range args {
			words[i] = args[i].(string)
		}
		if !judge(p.ref, words, replies[0], replies[1]) {
			return fmt.Sprintf("%.300q: %v, %v", args, replies[0], replies[1]), nil
		}
	}
	if what, err := p.sameValue(key); err != nil || what != "" {
		return what, err
	}
	return p.crossRestore(key)
}

// sameValue compares a key's digest. For a sorted set it compares the scores as numbers if the digests format them
// differently.
func (p *pair) sameValue(key string) (what string, err error) {
	digests, err := p.ask("DEBUG", "DIGEST-VALUE", key)
	if err != nil || equal(digests[0], digests[1]) {
		return "", err
	}
	if p.digestsByScore() {
		elements, err := p.ask("ZRANGE", key, 0, -1, "WITHSCORES")
		if err != nil || elements[0].Kind == '*' && equalNumbers(elements[0], elements[1]) {
			return "", err
		}
	}
	if p.digestsOfFields() {
		if what, err := p.sameFields(key); err != nil || what == "" {
			return "", err
		}
	}
	return fmt.Sprintf("DEBUG DIGEST-VALUE %.300q: %v, %v", key, digests[0], digests[1]), nil
}

// sameFields compares the fields of a hash, and their deadlines.
func (p *pair) sameFields(key string) (what string, err error) {
	pairs, err := p.ask("HGETALL", key)
	if err != nil {
		return "", err
	}
	if pairs[0].Kind == '-' || !samePairs(nil, pairs[0], pairs[1]) {
		return fmt.Sprintf("HGETALL %.300q: %.1000v, %.1000v", key, pairs[0], pairs[1]), nil
	}
	args := []any{"HPEXPIRETIME", key, "FIELDS", len(pairs[0].Elems) / 2}
	for i := 0; i < len(pairs[0].Elems); i += 2 {
		args = append(args, pairs[0].Elems[i].Text)
	}
	times, err := p.ask(args...)
	if err != nil || timesWithin(2000)(nil, times[0], times[1]) || equal(times[0], times[1]) {
		return "", err
	}
	return fmt.Sprintf("HPEXPIRETIME %.300q: %.1000v, %.1000v", key, times[0], times[1]), nil
}

// digestsByScore reports whether redis-server formats scores differently in a digest. 7.0 uses 17 digits, 7.4 as few as
// needed.
func (p *pair) digestsByScore() bool { return strings.HasPrefix(p.ref.version, "7.0") }

// digestsOfFields reports whether the digests of this server leave out the deadlines of fields. Valkey's do.
func (p *pair) digestsOfFields() bool { return strings.HasPrefix(p.ref.version, "valkey") }

// maxPayload is the longest argument for both servers: their proto-max-bulk-len is 1 MB.
const maxPayload = 1 << 20

// crossRestore makes each server restore the other's DUMP. The restored value must have the original's digest.
func (p *pair) crossRestore(key string) (what string, err error) {
	dumps, err := p.ask("DUMP", key)
	if err != nil {
		return "", err
	}
	digests, err := p.ask("DEBUG", "DIGEST-VALUE", key)
	if err != nil {
		return "", err
	}
	ttls, err := p.ask("PTTL", key)
	if err != nil {
		return "", err
	}
	if max(len(dumps[0].Text), len(dumps[1].Text)) > maxPayload {
		return "", nil
	}
	for i, s := range []*side{p.reference, p.subject} {
		if s == p.reference && !readable(p.ref.version, dumps[1-i].Text) {
			continue
		}
		ttl := 0
		if ttls[0].Int > 0 { // the digest shows whether there is a deadline
			ttl = 1_000_000
		}
		c := s.inspector
		c.Send("MULTI")
		c.Send("RESTORE", "restored", ttl, dumps[1-i].Text, "REPLACE")
		c.Send("DEBUG", "DIGEST-VALUE", "restored")
		c.Send("DEL", "restored")
		c.Send("EXEC")
		var last respclient.Value
		for range 5 {
			if last, err = c.Receive(); err != nil {
				return "", fmt.Errorf("%s: RESTORE: %w", s.name, err)
			}
		}
		if len(last.Elems) != 3 || last.Elems[0].Kind != '+' || last.Elems[1].String() != digests[i].String() {
			return fmt.Sprintf("%s restores %.100q, dumped by the other as %.200q (digest %v): %v",
				s.name, key, dumps[1-i].Text, digests[i], last), nil
		}
	}
	return "", nil
}

// newestRDB has the highest payload versions of servers. A server that is not listed reads all versions.
var newestRDB = []struct {
	reference string
	version   int
}{{"7.0", 10}, {"7.2", 11}, {"valkey", 11}}

// payloadVersion returns the RDB version in a payload's trailer, or 0.
func payloadVersion(payload string) int {
	if len(payload) < 10 {
		return 0
	}
	return int(payload[len(payload)-10]) | int(payload[len(payload)-9])<<8
}

// readable reports whether a server reads a payload, which may have an encoding that this server does not know yet.
func readable(reference, payload string) bool {
	version := payloadVersion(payload)
	for _, r := range newestRDB {
		if strings.HasPrefix(reference, r.reference) {
			return version <= r.version
		}
	}
	return true
}
