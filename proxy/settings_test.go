package proxy

import (
	"strings"
	"testing"

	"spindle/internal/config"
	"spindle/internal/setting"
)

// TestPage: proxy.conf has every directive that a proxy alone has, with its default.
func TestPage(t *testing.T) {
	h := &host{}
	registry, err := setting.NewRegistry(h.rows())
	if err != nil {
		t.Fatal(err)
	}
	_, chapters, err := config.Chapters(registry, page)
	if err != nil {
		t.Fatal(err)
	}
	stated := map[string]string{}
	for _, c := range chapters {
		for _, directive := range c.Directives {
			stated[directive.Name] = strings.Join(directive.Args, " ")
		}
	}
	for _, row := range append(h.own.Rows(), h.store.Rows()...) {
		args, ok := stated[row.Name]
		words, err := setting.SplitArgs(args)
		if err != nil || !ok || strings.Join(words, " ") != row.Default() {
			t.Errorf("%s is %q by default, and proxy.conf says %q, %t", row.Name, row.Default(), args, ok)
		}
	}
}

// TestAddressesStay: a proxy listens where it did at its start, so CONFIG SET of its addresses is refused.
func TestAddressesStay(t *testing.T) {
	registry, err := setting.NewRegistry((&host{}).rows())
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range []setting.Pair{{Name: "bind", Value: "127.0.0.1"}, {Name: "port", Value: "1"},
		{Name: "tls-port", Value: "1"}} {
		if err := registry.SetMany([]setting.Pair{pair}, setting.Conditions{}); err == nil {
			t.Errorf("%s is accepted", pair.Name)
		}
	}
}
