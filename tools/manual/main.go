// Command manual writes the manual pages and the shell completion from the program's own data: its forms, its settings'
// rows, and the page of settings.
//
//	manual FOLDER      man/*.1, man/*.5, bash/spindle, zsh/_spindle below it; run in the root of the tree
//
// Owner: none; make install runs it.
// Start at write; pages.go has the hand-written text, completion.go the shells.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"spindle/internal/config"
	"spindle/proxy"
	"spindle/proxy/dashboard"
	"spindle/server"
	"spindle/tools/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manual FOLDER")
		os.Exit(2)
	}
	page, err := os.ReadFile("spindle.conf")
	if err == nil {
		err = write(os.Args[1], string(page))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes all files below folder. page is the page of settings.
func write(folder, page string) error {
	registry, err := server.Registry()
	if err != nil {
		return err
	}
	intro, chapters, err := config.Chapters(registry, page)
	if err != nil {
		return err
	}
	proxyIntro, proxyChapters, err := proxy.Manual()
	if err != nil {
		return err
	}
	dashboardIntro, dashboardChapters, err := dashboard.Manual()
	if err != nil {
		return err
	}
	forms := slices.Concat(config.Forms, cli.Forms())
	for name, text := range map[string]string{
		"man/spindle.1":           serverPage(forms),
		"man/spindle-sentinel.1":  sentinelPage(),
		"man/spindle-check-aof.1": ".so man1/spindle.1\n",
		"man/spindle-check-rdb.1": ".so man1/spindle.1\n",
		"man/spindle-proxy.1":     proxyPage(),
		"man/spindle-dashboard.1": dashboardPage(),
		"man/spindle.conf.5":      settingsPage("spindle.conf", "spindle(1)", intro, chapters),
		"man/spindle-proxy.conf.5": settingsPage("spindle-proxy.conf", "spindle-proxy(1), spindle.conf(5)", proxyIntro,
			proxyChapters),
		"man/spindle-dashboard.conf.5": settingsPage("spindle-dashboard.conf", "spindle-dashboard(1), spindle.conf(5)",
			dashboardIntro, dashboardChapters),
		"bash/spindle": bashCompletion(chapters),
		"zsh/_spindle": zshCompletion(chapters),
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
