package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// tlsFile is only run under TLS.
const tlsFile = "unit/tls"

// underTLS returns the name of the file with the results of a suite's own server under TLS. It is in the user's cache
// folder.
func underTLS(reference string) (string, error) {
	cache, err := cacheDir()
	return filepath.Join(cache, "tls-"+filepath.Base(reference)), err
}

// useTLS makes the suite run with --tls, and with certificates made for this run.
func (r *runner) useTLS(ctx context.Context) error {
	script := filepath.Join("utils", "gen-test-certs.sh")
	if _, err := os.Stat(filepath.Join(r.dir, script)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the suite has no %s", script)
	}
	cmd := exec.CommandContext(ctx, "bash", script)
	cmd.Dir = r.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", script, err, out)
	}
	r.tls = true
	return nil
}
