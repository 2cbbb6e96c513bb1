package cli

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spindle/internal/config"
	"spindle/internal/disk"
	"spindle/internal/objectstore"
	"spindle/internal/offsite"
)

var backupForms = []config.Form{
	{Args: "backup push --store STORE --from-server HOST:PORT | --set FOLDER",
		Text: "sends a backup to a folder or a bucket, encrypted if --key-file is given; see backup --help"},
	{Args: "backup list --store STORE", Text: "the backups that are there, and whether they are whole"},
	{Args: "backup pull --store STORE --into FOLDER [--id ID]",
		Text: "makes a folder of a backup, on which a server starts"},
	{Args: "backup prune --store STORE --keep-last N | --keep-days N", Text: "removes older backups"},
}

// exitBusy is the exit code of a prune that could not begin: EX_TEMPFAIL of sysexits.h. The systemd unit does not treat
// it as a failure.
const exitBusy = 75

// A backupCall is one call of spindle backup.
type backupCall struct {
	process
	word string // push, list, pull or prune

	store, settings                       string
	endpoint, region, authority           string
	virtualHost, verify, dry, json        bool
	keyFiles                              texts
	server, set, name, id, into           string
	keepLast, keepDays                    int
	accessKey, secretKey, token, password string
	from                                  origin
}

// BackupOptions has the options of each subcommand of backup, besides BackupStore. The shell completion uses it.
var BackupOptions = map[string][]string{
	"push": {"from-server", "set", "name", "verify", "user", "pass", "tls", "cacert", "cert", "key", "sni", "insecure"},
	"list": {"json"}, "pull": {"into", "id", "name"}, "prune": {"keep-last", "keep-days", "dry-run"},
}

// BackupStore has the options of all subcommands of backup.
var BackupStore = []string{"store", "settings", "key-file", "endpoint", "region", "virtual-host", "store-cacert"}

// BackupWords has the subcommands of backup.
var BackupWords = []string{"push", "list", "pull", "prune"}

func (b *backupCall) flags() *flag.FlagSet {
	f := flag.NewFlagSet("backup", flag.ContinueOnError)
	f.SetOutput(b.err)
	f.StringVar(&b.store, "store", "", "where backups are: a `folder`, file:///folder or s3://bucket/prefix")
	f.StringVar(&b.settings, "settings", "",
		"a `file` of options: a line each, without --, as \"store s3://bucket\". It may "+
			"have access-key-id,\nsecret-access-key and session-token too")
	f.Var(&b.keyFiles, "key-file",
		"encrypt with the key of this `file`: 64 hex digits. Given again: read older keys' backups too")
	f.StringVar(&b.endpoint, "endpoint", firstOf(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL")),
		"the `address` of a store that is not AWS's: https://HOST:PORT; by default that of AWS_ENDPOINT_URL")
	f.StringVar(&b.region, "region", firstOf(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1"),
		"the store's `region`; by default that of AWS_REGION")
	f.BoolVar(&b.virtualHost, "virtual-host", false, "the bucket is part of the endpoint's host name")
	f.StringVar(&b.authority, "store-cacert", "",
		"the `file` with the certificates to trust of the store; the host's by default")
	f.StringVar(&b.server, "from-server", "", "back up the server at this `address` of this host")
	f.StringVar(&b.set, "set", "",
		"back up this `folder`: a sealed backup, or the appendonlydir of a server that has ended")
	f.StringVar(&b.name, "name", "", "the `name` of the server in the list; by default the host's, and the port")
	f.BoolVar(&b.verify, "verify", false, "read every part back, also those that were there")
	f.StringVar(&b.id, "id", "latest", "which backup: an `ID` of the list or its beginning, or latest")
	f.StringVar(&b.into, "into", "", "the `folder` to make: new, empty, or left by the same pull")
	f.IntVar(&b.keepLast, "keep-last", 0, "keep the last N whole backups of each server")
	f.IntVar(&b.keepDays, "keep-days", 0, "keep those of the last N days")
	f.BoolVar(&b.dry, "dry-run", false, "say what would be removed, and remove nothing")
	f.BoolVar(&b.json, "json", false, "print the list as JSON")
	f.StringVar(&b.from.user, "user", "", "of the server: the `user`")
	f.StringVar(&b.from.password, "pass", os.Getenv("REDISCLI_AUTH"),
		"of the server: the `password`; better in the environment, as REDISCLI_AUTH, or in the file of settings")
	f.BoolVar(&b.from.tls, "tls", false, "of the server: speak TLS")
	f.StringVar(&b.from.authority, "cacert", "", "of the server: the `file` with the certificates to trust")
	f.StringVar(&b.from.certificate, "cert", "", "of the server: the `file` with the certificate to show")
	f.StringVar(&b.from.key, "key", "", "of the server: the `file` with its private key")
	f.StringVar(&b.from.name, "sni", "", "of the server: the `name` that its certificate has to have")
	f.BoolVar(&b.from.insecure, "insecure", false, "of the server: do not check its certificate")
	f.Usage = func() { b.help(b.err) }
	return f
}

func firstOf(words ...string) string {
	i := slices.IndexFunc(words, func(word string) bool { return word != "" })
	if i < 0 {
		return ""
	}
	return words[i]
}

func (b *backupCall) help(out io.Writer) {
	fmt.Fprint(out, "Usage: spindle backup push|list|pull|prune --store STORE [OPTION ...]\n\n")
	for _, form := range backupForms {
		fmt.Fprintf(out, "  spindle %s\n        %s\n", form.Args, form.Text)
	}
	fmt.Fprint(out, "\nThe access key of a bucket is taken from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "+
		"AWS_SESSION_TOKEN,\nor from the file of --settings.\n")
	all := b.flags()
	for _, word := range append([]string{""}, BackupWords...) {
		names, title := BackupStore, "all"
		if word != "" {
			names, title = BackupOptions[word], word
		}
		fmt.Fprintf(out, "\nOptions of %s\n", title)
		some := flag.NewFlagSet("", flag.ContinueOnError)
		some.SetOutput(out)
		all.VisitAll(func(f *flag.Flag) {
			if slices.Contains(names, f.Name) {
				usage := f.Usage
				if f.Name == "pass" {
					f.DefValue = "" // the default from the environment is a secret
				}
				some.Var(f.Value, f.Name, usage)
				some.Lookup(f.Name).DefValue = f.DefValue
			}
		})
		some.PrintDefaults()
	}
}

// backupTool runs the program backup.
func backupTool(p process) int {
	b := &backupCall{process: p}
	err := b.parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err == nil {
		err = b.run(ctx)
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	case ctx.Err() != nil:
		fmt.Fprintln(p.err, "Stopped. The same command continues.")
		return 1
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(p.err, harmless([]byte(strings.TrimSuffix(line, "\n"))))
	}
	if errors.As(err, new(*offsite.BusyError)) {
		return exitBusy
	}
	return 1
}

// parse parses the command line and the file of settings.
func (b *backupCall) parse() error {
	if len(b.args) == 0 {
		b.help(b.err)
		return errUsage
	}
	if word := b.args[0]; word == "--help" || word == "-h" || word == "help" {
		b.help(b.out)
		return flag.ErrHelp
	}
	b.word = b.args[0]
	own, known := BackupOptions[b.word]
	if !known {
		return b.wrong("backup has no %q: it has push, list, pull and prune", b.word)
	}
	flags := b.flags()
	if err := flags.Parse(b.args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if flags.NArg() > 0 {
		return b.wrong("backup %s takes options alone, and not %q", b.word, flags.Arg(0))
	}
	given := map[string]bool{}
	foreign := ""
	flags.Visit(func(f *flag.Flag) {
		given[f.Name] = true
		if !slices.Contains(own, f.Name) && !slices.Contains(BackupStore, f.Name) {
			foreign = f.Name
		}
	})
	if foreign != "" {
		return b.wrong("backup %s has no option --%s", b.word, foreign)
	}
	b.accessKey, b.secretKey, b.token = os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"),
		os.Getenv("AWS_SESSION_TOKEN")
	if b.settings != "" {
		if err := b.readSettings(flags, given); err != nil {
			return err
		}
	}
	switch {
	case b.store == "":
		return b.wrong("backup %s needs --store", b.word)
	case b.word == "push" && (b.server == "") == (b.set == ""):
		return b.wrong("backup push needs one of --from-server and --set")
	case b.word == "pull" && b.into == "":
		return b.wrong("backup pull needs --into")
	case b.word == "prune" && (b.keepLast <= 0 && b.keepDays <= 0 || b.keepLast < 0 || b.keepDays < 0):
		return b.wrong("backup prune needs --keep-last or --keep-days, of 1 at least")
	}
	return nil
}

func (b *backupCall) wrong(format string, args ...any) error {
	fmt.Fprintf(b.err, format+"\n", args...)
	return errUsage
}

// readSettings reads the file of settings. The command line has priority over the file, and the file over the
// environment. One file is for all subcommands, so settings of other subcommands are ignored.
func (b *backupCall) readSettings(flags *flag.FlagSet, given map[string]bool) error {
	in, err := os.Open(b.settings)
	if err != nil {
		return err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	secret := false
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, _ := strings.Cut(line, " ")
		value = strings.TrimSpace(value)
		if quoted, err := strconv.Unquote(value); err == nil {
			value = quoted
		}
		bad := func(why string) error { return fmt.Errorf("%s:%d: %s: %s", b.settings, number, name, why) }
		secret = secret || name == "pass" || name == "secret-access-key" || name == "session-token"
		switch f := flags.Lookup(name); {
		case name == "access-key-id":
			b.accessKey = value
		case name == "secret-access-key":
			b.secretKey = value
		case name == "session-token":
			b.token = value
		case f == nil || name == "settings":
			return bad("there is no such setting")
		case value == "":
			return bad("it has no value")
		case given[name] || name == "from-server" && given["set"] || name == "set" && given["from-server"]:
		default:
			if value == "yes" || value == "no" {
				value = strconv.FormatBool(value == "yes")
			}
			if err := f.Value.Set(value); err != nil {
				return bad("its value is not of its kind")
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if stat, err := in.Stat(); err == nil && secret && stat.Mode().IsRegular() && stat.Mode().Perm()&0o007 != 0 {
		return fmt.Errorf("%s has secrets, and any user of this host may read it: chmod 640 %s", b.settings, b.settings)
	}
	return nil
}

// open opens the repository.
func (b *backupCall) open() (*offsite.Repository, error) {
	var keys []*offsite.Key
	for _, path := range b.keyFiles {
		k, err := offsite.ReadKey(path)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	store, err := b.openStore()
	if err != nil {
		return nil, err
	}
	return offsite.Open(store, keys, func(text string) { fmt.Fprintln(b.err, harmless([]byte(text))) }), nil
}

func (b *backupCall) openStore() (objectstore.Store, error) {
	scheme, rest, found := strings.Cut(b.store, "://")
	switch {
	case !found:
		return objectstore.OpenFolder(b.store)
	case scheme == "file":
		path, err := url.PathUnescape(rest)
		if err != nil || !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("the store %q is not of the form file:///FOLDER", b.store)
		}
		return objectstore.OpenFolder(path)
	case scheme != "s3":
		return nil, fmt.Errorf("the store %q is no folder, and not of the form s3://BUCKET/PREFIX", b.store)
	}
	bucket, prefix, _ := strings.Cut(rest, "/")
	if bucket == "" {
		return nil, fmt.Errorf("the store %q names no bucket: s3://BUCKET/PREFIX", b.store)
	}
	o := objectstore.S3Options{Bucket: bucket, Prefix: strings.Trim(prefix, "/"), Endpoint: b.endpoint, Region: b.region,
		VirtualHost: b.virtualHost, Credentials: objectstore.Credentials{ID: b.accessKey, Secret: b.secretKey,
			Token: b.token},
		Tries: 6, Pause: 500 * time.Millisecond, Now: time.Now}
	if b.authority != "" {
		text, err := os.ReadFile(b.authority)
		if err != nil {
			return nil, err
		}
		o.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
		if !o.TLS.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", b.authority)
		}
	}
	return objectstore.OpenS3(o)
}

func (b *backupCall) run(ctx context.Context) error {
	r, err := b.open()
	if err != nil {
		return err
	}
	switch b.word {
	case "push":
		return b.push(ctx, r)
	case "list":
		return b.list(ctx, r)
	case "pull":
		return b.pull(ctx, r)
	}
	return b.prune(ctx, r)
}

// list prints the backups, oldest first.
func (b *backupCall) list(ctx context.Context, r *offsite.Repository) error {
	all, pushes, err := r.List(ctx)
	if err != nil {
		return err
	}
	type line struct {
		ID     string    `json:"id"`
		Time   time.Time `json:"time"`
		Bytes  int64     `json:"bytes"`
		Server string    `json:"server"`
		Whole  bool      `json:"whole"`
		State  string    `json:"state"`
	}
	lines := []line{}
	for _, e := range all {
		l := line{ID: e.ID, Time: e.At, State: "whole", Whole: e.Wrong == ""}
		if e.Wrong != "" {
			l.State = e.Wrong
		}
		if e.Backup != nil {
			l.Bytes, l.Server = e.Backup.Bytes(), e.Backup.Server
		}
		lines = append(lines, l)
	}
	if b.json {
		out := json.NewEncoder(b.out)
		out.SetIndent("", "  ")
		return out.Encode(lines)
	}
	if len(lines) > 0 {
		fmt.Fprintf(b.out, "%-25s  %-19s  %9s  %-20s  %s\n", "id", "time", "size", "server", "state")
	}
	for _, l := range lines {
		bytes := "-"
		if l.Bytes > 0 {
			bytes = size(l.Bytes)
		}
		fmt.Fprintf(b.out, "%-25s  %-19s  %9s  %-20s  %s\n", harmless([]byte(l.ID)), l.Time.Local().Format(time.DateTime),
			bytes, harmless([]byte(firstOf(l.Server, "-"))), harmless([]byte(l.State)))
	}
	for _, u := range pushes {
		fmt.Fprintf(b.out,
			"A push of %s is under way or broke off: it runs on %s since %s, and its last sign of life is of %s.\n",
			harmless([]byte(u.Server)), harmless([]byte(u.Host)), u.Since.Local().Format(time.DateTime),
			u.Written.Local().Format(time.DateTime))
	}
	if len(lines) == 0 {
		fmt.Fprintf(b.out, "%s has no backup.\n", r.Store)
	}
	return nil
}

// pull writes a backup to a folder.
func (b *backupCall) pull(ctx context.Context, r *offsite.Repository) error {
	backup, err := r.Find(ctx, b.id, b.name)
	if err != nil {
		return err
	}
	progress := newBar(b.process)
	err = r.Pull(ctx, disk.OS, backup, b.into, func(n int64) { progress.at(n, backup.Bytes()) })
	progress.end()
	switch {
	case errors.As(err, new(*offsite.BrokenError)):
		return errors.Join(err, b.others(ctx, r, backup.ID))
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: the backup has %s. Make room, and the same command continues", err, size(backup.Bytes()))
	case err != nil:
		return err
	}
	fmt.Fprintf(b.out, "%s has the data of %s as of %s: %s, every part checked.\n", b.into,
		harmless([]byte(backup.Server)), backup.At().Local().Format(time.DateTime), size(backup.Bytes()))
	start := "spindle --dir " + b.into + " --appendonly yes"
	name, _ := strings.CutSuffix(backup.Files[len(backup.Files)-1].Name, ".manifest")
	if name != "appendonly.aof" {
		start += " --appendfilename " + name
	}
	fmt.Fprintf(b.out, "A server starts with it by: %s\n", harmless([]byte(start)))
	return nil
}

// others returns an error that lists the backups that can be pulled instead of a broken one.
func (b *backupCall) others(ctx context.Context, r *offsite.Repository, broken string) error {
	all, _, err := r.List(ctx)
	if err != nil {
		return err
	}
	var whole []string
	for _, e := range all {
		if e.Wrong == "" && e.ID != broken {
			whole = append(whole, e.ID)
		}
	}
	if len(whole) == 0 {
		return errors.New("There is no other backup whose parts are all there.")
	}
	return fmt.Errorf("The parts of these are all there: %s.", strings.Join(whole, ", "))
}

// lasting returns the length of days. More days than a Duration can hold count as the most, and not as less than none.
func lasting(days int) time.Duration {
	const day = 24 * time.Hour
	return time.Duration(min(int64(days), math.MaxInt64/int64(day))) * day
}

// prune removes old backups.
func (b *backupCall) prune(ctx context.Context, r *offsite.Repository) error {
	done, err := r.Prune(ctx, offsite.Policy{Last: b.keepLast, Since: lasting(b.keepDays), Now: time.Now(),
		Dry: b.dry})
	if err != nil {
		return err
	}
	verb := "Removed"
	if b.dry {
		verb = "Would remove"
	}
	for _, e := range done.Backups {
		fmt.Fprintf(b.out, "%s: backup %s of %s.\n", verb, harmless([]byte(e.ID)), e.At.Local().Format(time.DateTime))
	}
	fmt.Fprintf(b.out, "%s: %d backups, %d parts of %s. %d backups stay.\n", verb, len(done.Backups), done.Parts,
		size(done.Bytes), done.Kept)
	return nil
}
