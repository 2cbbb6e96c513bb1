package main

import (
	"fmt"
	"strings"

	"spindle/internal/config"
	"spindle/internal/version"
)

// A roff is a manual page under construction.
type roff struct{ strings.Builder }

func newPage(name string, section int, what string) *roff {
	p := &roff{}
	fmt.Fprintf(p, ".TH %s %d \"\" \"spindle %s\" \"spindle\"\n", strings.ToUpper(name), section, version.Spindle)
	p.WriteString(".ad l\n.nh\n")
	p.section("NAME")
	fmt.Fprintf(p, "%s \\- %s\n", escape(name), escape(what))
	return p
}

func (p *roff) section(title string) { fmt.Fprintf(p, ".SH %s\n", escape(title)) }

// text writes a paragraph.
func (p *roff) text(text string) { fmt.Fprintf(p, ".PP\n%s\n", escape(text)) }

// paragraphs writes the paragraphs of text, which empty lines separate.
func (p *roff) paragraphs(text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		p.text(paragraph)
	}
}

// item writes a term with its description.
func (p *roff) item(term, text string) {
	fmt.Fprintf(p, ".TP\n\\fB%s\\fR\n%s\n", escape(term), escape(text))
}

// escape makes roff show text unchanged.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "|", `|\:`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// serverPage returns spindle(1).
func serverPage(forms []config.Form) string {
	p := newPage("spindle", 1, "an in-memory data store for Redis clients")
	p.section("SYNOPSIS")
	for i, f := range forms {
		if i > 0 {
			p.WriteString(".br\n")
		}
		fmt.Fprintf(p, "\\fBspindle\\fR %s\n", escape(f.Args))
	}
	p.section("DESCRIPTION")
	p.text("spindle is a server for Redis " + version.Redis +
		" clients: it speaks that protocol, reads redis.conf, and loads and writes " +
		"dump.rdb and append-only files. Without a file it serves every address of the host on port 6379 with the defaults " +
		"of spindle.conf(5).")
	p.text("As spindle-check-aof, spindle-check-rdb, redis-check-aof or redis-check-rdb it is that tool alone.")
	p.section("FORMS")
	for _, f := range forms {
		p.item("spindle "+f.Args, f.Text)
	}
	p.section("SIGNALS")
	p.item("SIGTERM, SIGINT",
		"end the server, after a save if there are save rules; see shutdown-on-sigterm. A second SIGINT ends it at once.")
	p.item("SIGALRM", "has the log tell what every goroutine does.")
	p.section("SUPERVISION")
	p.text("With supervised systemd the server tells systemd when it is ready, what it is about, and that a long load " +
		"or save needs more " +
		"time. The unit is spindle.service. The log is opened for each line: rotation needs no signal.")
	p.section("EXIT STATUS")
	p.text("0 after an orderly end. 1 if the configuration or the data is refused, and from the tools if a file is not " +
		"whole. 2 after a panic.")
	p.section("FILES")
	p.item("/etc/spindle/spindle.conf", "the configuration of the unit")
	p.item("/var/lib/spindle", "its data")
	p.item("/var/log/spindle", "its log")
	p.section("SEE ALSO")
	p.text("spindle.conf(5), spindle-sentinel(1), spindle-proxy(1), spindle-dashboard(1), redis-cli(1)")
	return p.String()
}

// sentinelPage returns spindle-sentinel(1).
func sentinelPage() string {
	p := newPage("spindle-sentinel", 1, "watches primaries and replicas, and fails over")
	p.section("SYNOPSIS")
	p.WriteString("\\fBspindle\\-sentinel\\fR FILE\n.br\n\\fBspindle\\fR \\-\\-sentinel FILE\n")
	p.section("DESCRIPTION")
	p.text("Sentinel watches primaries and their replicas, agrees with other Sentinels that a primary is gone, and has " +
		"a replica take its " +
		"place. FILE is its configuration. Sentinel writes to it what it learns, so it must be allowed to.")
	p.text("The unit is spindle-sentinel.service; its file is /etc/spindle/sentinel.conf.")
	p.section("SEE ALSO")
	p.text("spindle(1)")
	return p.String()
}

// proxyPage returns spindle-proxy(1).
func proxyPage() string {
	p := newPage("spindle-proxy", 1, "one address in front of many shards")
	p.section("SYNOPSIS")
	p.WriteString("\\fBspindle\\-proxy\\fR [FILE] [\\-\\-DIRECTIVE VALUE ...]\n.br\n")
	p.WriteString("\\fBspindle\\fR \\-\\-proxy [FILE] [\\-\\-DIRECTIVE VALUE ...]\n")
	p.section("DESCRIPTION")
	p.text("A proxy lets clients that know no cluster use many servers as if they were one. It has no data. The servers " +
		"are a Redis Cluster, servers that Sentinels watch, or a product that a dashboard runs.")
	p.text("The unit is spindle-proxy@NAME.service; its file is /etc/spindle/proxy-NAME.conf. /etc/spindle/proxy.conf is " +
		"an example with every setting.")
	p.section("SIGNALS")
	p.item("SIGTERM, SIGINT", "end the proxy, once it has answered what it owes its clients.")
	p.section("SEE ALSO")
	p.text("spindle-proxy.conf(5), spindle-dashboard(1), spindle(1)")
	return p.String()
}

// dashboardPage returns spindle-dashboard(1).
func dashboardPage() string {
	p := newPage("spindle-dashboard", 1, "runs the shards of proxies")
	p.section("SYNOPSIS")
	p.WriteString("\\fBspindle\\-dashboard\\fR [FILE] [\\-\\-DIRECTIVE VALUE ...]\n.br\n")
	p.WriteString("\\fBspindle\\fR \\-\\-dashboard [FILE] [\\-\\-DIRECTIVE VALUE ...]\n")
	p.section("DESCRIPTION")
	p.text("A dashboard keeps products in a store: groups of servers or a cluster, their slots, Sentinels and proxies. It " +
		"moves slots while they serve. Of several dashboards one is active, by election.")
	p.text("The unit is spindle-dashboard.service; its file is /etc/spindle/dashboard.conf. spindle ctl asks a dashboard " +
		"from the shell.")
	p.section("SEE ALSO")
	p.text("spindle-dashboard.conf(5), spindle-proxy(1), spindle(1)")
	return p.String()
}

// settingsPage returns the page of a configuration file, in section 5.
func settingsPage(name, also, intro string, chapters []config.Chapter) string {
	p := newPage(name, 5, "the configuration of "+strings.TrimSuffix(name, ".conf"))
	p.section("DESCRIPTION")
	p.paragraphs(intro)
	for _, c := range chapters {
		p.section(strings.ToUpper(c.Title))
		if c.Text != "" {
			p.paragraphs(c.Text)
		}
		for _, d := range c.Directives {
			lines := make([]string, len(d.Args))
			for i, args := range d.Args {
				lines[i] = d.Name + " " + args
			}
			text := d.Text
			if facts := d.Facts(); facts != "" {
				text += " (" + facts + ")"
			}
			for _, more := range lines[:len(lines)-1] {
				fmt.Fprintf(p, ".TP\n\\fB%s\\fR\n.PD 0\n", escape(more))
			}
			p.item(lines[len(lines)-1], text)
			if len(lines) > 1 {
				p.WriteString(".PD\n")
			}
		}
	}
	p.section("SEE ALSO")
	p.text(also)
	return p.String()
}
