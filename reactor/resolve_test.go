package reactor

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
)

// TestResolvedBeforehand: a rebind does not look up names again that Resolve has just looked up, successfully or not.
func TestResolvedBeforehand(t *testing.T) {
	asked := 0
	real := lookUp
	defer func() { lookUp = real }()
	lookUp = func(_ context.Context, host string) ([]netip.Addr, error) {
		asked++
		if host == "here.test" {
			return []netip.Addr{netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")}, nil
		}
		return nil, errors.New("no such host")
	}
	bind := []string{"127.0.0.1", "here.test", "-gone.test", "*", "-::*", ""}
	hosts := Unresolved(bind)
	if !slices.Equal(hosts, []string{"here.test", "gone.test"}) {
		t.Fatal(hosts)
	}
	r := &Reactor{}
	o := &Options{names: &r.names}
	r.Resolve(hosts)
	for range 2 {
		if addr, err := o.resolve("here.test"); err != nil || addr != netip.MustParseAddr("127.0.0.1") {
			t.Error(addr, err)
		}
		if _, err := o.resolve("gone.test"); err == nil {
			t.Error("a host was found that is not there")
		}
		if addr, err := o.resolve("*"); err != nil || addr != netip.IPv4Unspecified() {
			t.Error(addr, err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
	r.Resolve([]string{"other.test", "other.test"})
	if o.resolve("here.test"); asked != 3 {
		t.Errorf("asked %d times: what another asks for takes nothing away, and a name twice is one question", asked)
	}
	old := r.names.found["here.test"]
	old.until = old.until.Add(-2 * namesLast)
	r.names.found["here.test"] = old
	if o.resolve("here.test"); asked != 4 {
		t.Error("an old answer was believed")
	}
}
