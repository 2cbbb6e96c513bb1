package dashboard

import (
	"fmt"
	"hash/crc32"
	"testing"

	"spindle/tests/testkit"
)

// TestCodis: the servers of a Codis product become groups with the keys that they have. The slots of the keys follow
// Codis's rule. Then slots move to a third group.
func TestCodis(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0, 1)
	servers := []*testkit.Server{testkit.Redis(t), testkit.Redis(t), testkit.Redis(t)}
	slotOf := func(key string) int { return int(crc32.ChecksumIEEE([]byte(key)) % 1024) }
	const keys = 2000
	for j := range keys {
		key := fmt.Sprintf("key:%d", j)
		servers[slotOf(key)*2/1024].Do("SET", key, value(key, 0))
		tagged := fmt.Sprintf("{%s}:more", key)
		servers[slotOf(key)*2/1024].Do("SET", tagged, value(tagged, 0))
	}
	s.do("POST", "/v1/products", record{"name": "shop", "kind": "groups", "hash": "crc32"}, nil)
	for i, server := range servers {
		s.do("POST", "/v1/products/shop/groups", record{"id": fmt.Sprint(i + 1), "primary": server.Addr}, nil)
	}
	out, code := testkit.Run(t, limit, "", testkit.Spindle(t), "ctl", "--url", s.awaitActive().url, "--token", secret,
		"slots", "import", "shop", "../../tools/cli/testdata/codis.json")
	if code != 0 {
		t.Fatal(out)
	}
	p := s.plan(record{"balance": "slots"})
	s.do("POST", "/v1/products/shop/move", record{"steps": p.Steps}, nil)
	s.awaitMove("done")
	owners, found := s.owners(), int64(0)
	for j := range keys {
		key := fmt.Sprintf("key:%d", j)
		var at int
		fmt.Sscan(owners[slotOf(key)], &at)
		for _, name := range []string{key, fmt.Sprintf("{%s}:more", key)} {
			if v := servers[at-1].Do("GET", name); v.Text != value(name, 0) {
				t.Fatalf("group %d has %v under %s", at, v, name)
			}
		}
	}
	for _, server := range servers {
		n := server.Do("DBSIZE").Int
		if found += n; n < keys/2 {
			t.Errorf("a group has %d keys", n)
		}
	}
	if found != 2*keys {
		t.Errorf("%d keys of %d are there", found, 2*keys)
	}
}
