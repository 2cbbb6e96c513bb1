package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"spindle/internal/config"
	"spindle/internal/reason"
)

// A ctl is one call of spindle ctl. It calls a dashboard's REST API.
type ctl struct {
	process
	flags ctlFlags
	args  []string // of the command
	http  *http.Client
}

// ctlFlags has all options. Each command accepts those that its flags name.
type ctlFlags struct {
	url, token, tokenFile, authority string
	insecure, json                   bool

	hash, label, master, zone, product, draining, balance, drain, move, to string
	seeds                                                                  texts
	wipe, force, even, start, wait                                         bool
	pace, quorum, limit                                                    int

	given map[string]bool // the options on the command line
}

// texts is the value of an option that may be given several times.
type texts []string

func (t *texts) String() string { return strings.Join(*t, " ") }

func (t *texts) Set(text string) error {
	*t = append(*t, text)
	return nil
}

// A ctlCommand is a command of ctl: some words, and arguments.
type ctlCommand struct {
	name    string // "group create"
	args    string // "PRODUCT ID PRIMARY [REPLICA ...]"
	options []string
	text    string
	run     func(c *ctl) error
}

// needs returns the least and the greatest number of arguments. A greatest number of -1 means no limit.
func (c *ctlCommand) needs() (least, most int) {
	for word := range strings.FieldsSeq(c.args) {
		switch {
		case word == "...]":
			return least, -1
		case strings.HasPrefix(word, "["):
			most++
		default:
			least, most = least+1, most+1
		}
	}
	return least, most
}

// errUsage ends a call with wrong arguments, after the usage was printed.
var errUsage = errors.New("usage")

// ctlTool runs the program ctl.
func ctlTool(p process) int {
	err := runCtl(p)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		ctlHelp(p.out)
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	fmt.Fprintln(p.err, harmless([]byte(err.Error())))
	return 1
}

func runCtl(p process) error {
	c := &ctl{process: p}
	flags := flag.NewFlagSet("ctl", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	c.flags.register(flags)
	words, err := parseMixed(flags, p.args)
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(p.err, err)
			return errUsage
		}
		return err
	}
	if len(words) == 0 {
		ctlHelp(p.err)
		return errUsage
	}
	c.flags.given = map[string]bool{}
	flags.Visit(func(f *flag.Flag) { c.flags.given[f.Name] = true })
	command := findCommand(words)
	if command == nil {
		fmt.Fprintf(p.err, "ctl has no command %q: see spindle ctl --help\n", harmless([]byte(strings.Join(words, " "))))
		return errUsage
	}
	c.args = words[len(strings.Fields(command.name)):]
	least, most := command.needs()
	wrong := len(c.args) < least || most >= 0 && len(c.args) > most
	for name := range c.flags.given {
		if !slices.Contains(commonOptions, name) && !slices.Contains(command.options, name) {
			fmt.Fprintf(p.err, "%s has no option --%s\n", command.name, name)
			wrong = true
		}
	}
	if wrong {
		fmt.Fprintf(p.err, "Usage: spindle ctl %s\n", command.usage())
		return errUsage
	}
	if err := c.connect(); err != nil {
		return err
	}
	return command.run(c)
}

// commonOptions has the options of every command.
var commonOptions = []string{"url", "token", "token-file", "ca-cert-file", "insecure", "json"}

func (f *ctlFlags) register(flags *flag.FlagSet) {
	address := os.Getenv("SPINDLE_DASHBOARD_URL")
	if address == "" {
		address = "http://127.0.0.1:6390"
	}
	flags.StringVar(&f.url, "url", address, "the `address` of a dashboard; by default that of SPINDLE_DASHBOARD_URL")
	flags.StringVar(&f.token, "token", "", "the token; SPINDLE_DASHBOARD_TOKEN and --token-file do not show it in ps")
	flags.StringVar(&f.tokenFile, "token-file", "", "a `file` with the token")
	flags.StringVar(&f.authority, "ca-cert-file", "",
		"the `file` of the authority that has signed the dashboard's certificate")
	flags.BoolVar(&f.insecure, "insecure", false, "take any certificate")
	flags.BoolVar(&f.json, "json", false, "print the dashboard's replies as they are")
	flags.StringVar(&f.hash, "hash", "", "crc16, Redis Cluster's rule, or crc32, Codis's")
	flags.Var(&f.seeds, "seed", "the `address` of a node of the cluster; may be given again")
	flags.StringVar(&f.label, "label", "", "any `text`")
	flags.StringVar(&f.master, "master", "", "the group's `name` at Sentinels")
	flags.StringVar(&f.zone, "zone", "", "where the server stands")
	flags.StringVar(&f.product, "product", "", "only what concerns this `product`")
	flags.StringVar(&f.draining, "draining", "", "yes: no plan gives the group slots; no: plans do")
	flags.StringVar(&f.balance, "balance", "", "equal parts of slots, keys, bytes or cpu")
	flags.StringVar(&f.drain, "drain", "", "all slots of this `group` go to the others")
	flags.StringVar(&f.move, "move", "", "these `slots`, as 0-99,200, go to the group of --to")
	flags.StringVar(&f.to, "to", "", "the `group` that gets them")
	flags.BoolVar(&f.wipe, "wipe", false, "servers that join may lose their data")
	flags.BoolVar(&f.force, "force", false, "although the primary does not answer; its last writes are lost")
	flags.BoolVar(&f.even, "even", false, "all slots without a group, in equal parts")
	flags.BoolVar(&f.start, "start", false, "carry the plan out")
	flags.BoolVar(&f.wait, "wait", false, "show the move's progress until its end")
	flags.IntVar(&f.pace, "pace", 0, "`keys` a second, at most; 0: no bound")
	flags.IntVar(&f.quorum, "quorum", 0, "how many Sentinels must see a primary down; by default more than half")
	flags.IntVar(&f.limit, "limit", 100, "how many actions")
}

// parseMixed parses options before, between and after words. After -- all arguments are words.
func parseMixed(flags *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		rest := flags.Args()
		if len(rest) == 0 {
			return words, nil
		}
		if len(rest) < len(args) && args[len(args)-len(rest)-1] == "--" {
			return append(words, rest...), nil
		}
		words, args = append(words, rest[0]), rest[1:]
	}
}

// findCommand finds the command that matches the most words.
func findCommand(words []string) (found *ctlCommand) {
	for i := range ctlCommands {
		names := strings.Fields(ctlCommands[i].name)
		if len(words) >= len(names) && slices.Equal(words[:len(names)], names) &&
			(found == nil || len(names) > len(strings.Fields(found.name))) {
			found = &ctlCommands[i]
		}
	}
	return found
}

func (c *ctlCommand) usage() string {
	text := strings.TrimSpace(c.name + " " + c.args)
	for _, name := range c.options {
		text += " [--" + name + "]"
	}
	return text
}

func ctlHelp(out io.Writer) {
	fmt.Fprint(out, "Usage: spindle ctl [OPTION ...] COMMAND\n\nAsks a dashboard, or has it do something.\n\n")
	for _, c := range ctlCommands {
		fmt.Fprintf(out, "  %s\n        %s\n", c.usage(), c.text)
	}
	fmt.Fprint(out, "\nOptions\n\n")
	flags := flag.NewFlagSet("ctl", flag.ContinueOnError)
	flags.SetOutput(out)
	new(ctlFlags).register(flags)
	flags.PrintDefaults()
}

// ctlForms has the forms of command lines of ctl, for the help of the whole program.
var ctlForms = []config.Form{
	{Args: "ctl [OPTION ...] COMMAND", Text: "asks a dashboard, or has it do something: see ctl --help"},
}

// connect creates the HTTP client.
func (c *ctl) connect() error {
	f := &c.flags
	if f.token == "" {
		f.token = os.Getenv("SPINDLE_DASHBOARD_TOKEN")
	}
	if f.tokenFile != "" {
		text, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return err
		}
		f.token = strings.TrimSpace(string(text))
	}
	config := &tls.Config{InsecureSkipVerify: f.insecure}
	if f.authority != "" {
		text, err := os.ReadFile(f.authority)
		if err != nil {
			return err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s holds no certificate", f.authority)
		}
	}
	c.http = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{TLSClientConfig: config},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return nil
}

// mostReply is the maximum size of a dashboard's reply.
const mostReply = 64 << 20

// ask sends a request and returns the reply's body. If the first dashboard redirects to the active one, ask follows.
func (c *ctl) ask(method, path string, body any) ([]byte, error) {
	var text []byte
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = encoded
	}
	at := strings.TrimSuffix(c.flags.url, "/") + path
	for range 4 {
		request, err := http.NewRequest(method, at, bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		if body != nil {
			request.Header.Set("Content-Type", "application/json")
		}
		if c.flags.token != "" {
			request.Header.Set("Authorization", "Bearer "+c.flags.token)
		}
		response, err := c.http.Do(request)
		if err != nil {
			return nil, fmt.Errorf("the dashboard at %s does not answer: %s", c.flags.url, reason.Of(err))
		}
		reply, err := io.ReadAll(io.LimitReader(response.Body, mostReply))
		response.Body.Close()
		if err != nil {
			return nil, err
		}
		if next, err := response.Location(); response.StatusCode == http.StatusTemporaryRedirect && err == nil {
			if next.Scheme != "https" && strings.HasPrefix(at, "https:") { // the token would be sent in the clear
				return nil, fmt.Errorf("the active dashboard is %s, which is no https: see its dashboard-url", next.Redacted())
			}
			at = next.String()
			continue
		}
		if response.StatusCode != http.StatusOK {
			return nil, refusalOf(response.Status, reply)
		}
		return reply, nil
	}
	return nil, errors.New("the dashboards name each other as the active one: ask again")
}

// refusalOf converts a dashboard's error reply to an error.
func refusalOf(status string, reply []byte) error {
	var body struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(reply, &body) == nil && body.Error.Message != "" {
		return errors.New(body.Error.Message)
	}
	return fmt.Errorf("it is no dashboard: %s: %.200q", status, reply)
}

// apiPath makes a path below /v1 from its parts.
func apiPath(parts ...string) string {
	p := "/v1"
	for _, part := range parts {
		p += "/" + url.PathEscape(part)
	}
	return p
}

// get sends a GET request. It prints the reply as JSON, or by show.
func (c *ctl) get(path string, show func(reply json.RawMessage) error) error {
	return c.send(http.MethodGet, path, nil, show)
}

// send is get with a method and a body. show may be nil if the reply only confirms the request.
func (c *ctl) send(method, path string, body any, show func(reply json.RawMessage) error) error {
	reply, err := c.ask(method, path, body)
	if err != nil {
		return err
	}
	switch {
	case c.flags.json:
		_, err = c.out.Write(reply)
		return err
	case show == nil:
		fmt.Fprintln(c.out, "done")
		return nil
	}
	return show(reply)
}

// watchEvery is the interval at which watchMove reads the progress of a move.
const watchEvery = 500 * time.Millisecond

// watchMove prints the progress of a move until it is over, or until Ctrl-C. Ctrl-C does not change the move.
func (c *ctl) watchMove(product string) error {
	stop, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	last := ""
	for {
		reply, err := c.ask(http.MethodGet, apiPath("products", product, "move"), nil)
		if err != nil {
			return err
		}
		var m moveReply
		if err := json.Unmarshal(reply, &m); err != nil {
			return err
		}
		over := !m.Ended.IsZero()
		switch {
		case c.flags.json:
			if over || m.State == "paused" {
				_, err = c.out.Write(reply)
				return err
			}
		case c.terminal:
			fmt.Fprintf(c.err, "\r\x1b[K%s", m.bar())
			if over || m.State == "paused" {
				fmt.Fprintln(c.err)
			}
		case m.line() != last:
			last = m.line()
			fmt.Fprintln(c.out, last)
		}
		if over || m.State == "paused" {
			if m.Problem != "" && over {
				return errors.New(m.Problem)
			}
			return nil
		}
		select {
		case <-stop.Done():
			fmt.Fprintf(c.err, "\nThe move continues: see spindle ctl move %s.\n", harmless([]byte(product)))
			return nil
		case <-time.After(watchEvery):
		}
	}
}
