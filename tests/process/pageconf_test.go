package process

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

var directiveName = regexp.MustCompile(`(?m)^#?([a-z][a-z0-9-]+) `)

// TestPagesConfigurations: a block of a page that begins with a directive is a configuration. --check-config accepts
// each one as it is written, except for the files of its certificates.
func TestPagesConfigurations(t *testing.T) {
	t.Parallel()
	settings, err := os.ReadFile("../../spindle.conf")
	if err != nil {
		t.Fatal(err)
	}
	directive := map[string]bool{"user": true}
	for _, m := range directiveName.FindAllStringSubmatch(string(settings), -1) {
		directive[m[1]] = true
	}
	certificates := testkit.NewCertificates(t)
	var pages []string
	for _, pattern := range []string{"../../*.md", "../../doc/*.md", "../../packaging/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	checked := map[string]int{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		block := ""
		for line := range strings.Lines(string(text) + "\n") {
			if code, ok := strings.CutPrefix(line, "    "); ok {
				block += code
				continue
			}
			if name, _, _ := strings.Cut(block, " "); directive[name] {
				conf := filepath.Join(t.TempDir(), "page.conf")
				if err := os.WriteFile(conf, []byte(block), 0o644); err != nil {
					t.Fatal(err)
				}
				out, code := testkit.Run(t, testkit.Slowly(time.Minute), "", testkit.Spindle(t), "--check-config", conf,
					"--tls-cert-file", certificates.File("server.crt"), "--tls-key-file", certificates.File("server.key"),
					"--tls-ca-cert-file", certificates.File("ca.crt"))
				if code != 0 {
					t.Errorf("%s: %s\n%s", page, out, block)
				}
				checked[filepath.Base(page)]++
			}
			block = ""
		}
	}
	for _, page := range []string{"SECURITY.md", "acks.md", "backup.md", "live.md"} {
		if checked[page] == 0 {
			t.Errorf("no configuration was found in %s", page)
		}
	}
}
