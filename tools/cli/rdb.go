package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"spindle/bgsave"
	"spindle/bgsave/rdb"
	"spindle/internal/reason"
)

const rdbUsage = "Usage: spindle rdb report [OPTION ...] FILE|HOST:PORT\n"

// rdbTool runs the program rdb. Its only subcommand is report.
func rdbTool(p process) int {
	if len(p.args) == 0 || p.args[0] != "report" {
		fmt.Fprint(p.err, rdbUsage)
		return 1
	}
	o := reportOptions{}
	flags := flag.NewFlagSet("rdb report", flag.ContinueOnError)
	flags.SetOutput(p.err)
	flags.StringVar(&o.format, "format", "table", "table, csv or json")
	flags.BoolVar(&o.keys, "keys", false, "a line of CSV for each key instead of the report")
	flags.StringVar(&o.svg, "svg", "", "draw the shares into this `file` as well")
	flags.IntVar(&o.top, "top", 20, "how many prefixes and largest keys to show")
	flags.StringVar(&o.separator, "separator", ":", "what ends a prefix of a key")
	flags.IntVar(&o.depth, "depth", 1, "how many separators a prefix has at most")
	flags.StringVar(&o.from.user, "user", "", "of a server: the user to log in as")
	flags.StringVar(&o.from.password, "pass", os.Getenv("REDISCLI_AUTH"),
		"of a server: the password; better in the environment, as REDISCLI_AUTH")
	flags.BoolVar(&o.from.tls, "tls", false, "of a server: speak TLS")
	flags.StringVar(&o.from.authority, "cacert", "", "the `file` with the certificates to trust; the host's by default")
	flags.StringVar(&o.from.certificate, "cert", "", "the `file` with the certificate to show")
	flags.StringVar(&o.from.key, "key", "", "the `file` with its private key")
	flags.StringVar(&o.from.name, "sni", "", "the `name` that the server's certificate has to have")
	flags.BoolVar(&o.from.insecure, "insecure", false, "do not check the server's certificate")
	flags.Usage = func() {
		fmt.Fprint(p.err, rdbUsage+"\n")
		flags.PrintDefaults()
	}
	switch err := flags.Parse(p.args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 1
	}
	o.ascii = p.ascii
	switch {
	case flags.NArg() != 1:
		flags.Usage()
		return 1
	case o.format != "table" && o.format != "csv" && o.format != "json":
		fmt.Fprintf(p.err, "--format is table, csv or json, not %q\n", o.format)
		return 1
	case o.top < 1 || o.depth < 1 || o.separator == "":
		fmt.Fprintln(p.err, "--top and --depth are 1 at least, and --separator is not empty")
		return 1
	}
	if err := o.run(flags.Arg(0), p); err != nil {
		fmt.Fprintf(p.err, "%s: %s\n", flags.Arg(0), err)
		return 1
	}
	return 0
}

// reportOptions are the options of rdb report.
type reportOptions struct {
	format, svg, separator string
	keys, ascii            bool // ascii means that the terminal does not support UTF-8
	top, depth             int
	from                   origin
}

// run makes the report of source. source is a file, or a server by host and port.
func (o *reportOptions) run(source string, p process) error {
	in, size, err := o.open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	plain, wrapped, err := bgsave.UnwrapReader(in)
	if err != nil {
		return err
	}
	defer plain.Close()
	_, isFile := in.(*os.File)
	load := bgsave.LoadOptions{
		KeepExpired: true, SkipModuleData: true, Foreign: true, Relaxed: true, Live: !isFile, Progress: &bgsave.Loading{},
	}
	if !wrapped {
		load.Size = size
	}
	c, err := newCensus(o, p.out)
	if err != nil {
		return err
	}
	b := newBar(p)
	c.watch = func() { b.at(load.Progress.Read.Load(), load.Size) }
	found, err := bgsave.Read(context.Background(), plain, c, load)
	b.end()
	if err != nil {
		return explained(err)
	}
	c.source, c.version, c.fileBytes = source, found.Version, load.Progress.Read.Load()
	if o.svg != "" {
		var picture bytes.Buffer
		c.draw(&picture)
		if err := os.WriteFile(o.svg, picture.Bytes(), 0o644); err != nil {
			return errors.New(reason.Of(err))
		}
	}
	if o.keys {
		return c.out.Flush()
	}
	switch o.format {
	case "json":
		c.json()
	case "csv":
		c.csv()
	default:
		c.table()
	}
	return c.out.Flush()
}

// explained converts an error of reading to one for the operator.
func explained(err error) error {
	if sum := (*rdb.ChecksumError)(nil); errors.As(err, &sum) {
		return fmt.Errorf("%w: spindle check-rdb says more", err)
	}
	return err
}

// open opens the RDB file that source names, or fetches it from the server. The size is 0 if it is unknown.
func (o *reportOptions) open(source string) (io.ReadCloser, int64, error) {
	file, err := os.Open(source)
	if err == nil {
		stat, err := file.Stat()
		if err == nil && stat.IsDir() {
			err = errors.New("is a folder")
		}
		if err != nil {
			file.Close()
			return nil, 0, err
		}
		return file, stat.Size(), nil
	}
	if !os.IsNotExist(err) || !strings.Contains(source, ":") || strings.ContainsAny(source, "/\\") {
		return nil, 0, errors.New(reason.Of(err))
	}
	return o.from.fetch(source, 10*time.Second)
}
