// Package transcripts replays recorded conversations: a client's commands and, byte for byte, its replies.
//
// Owner: tests; only its recorder imports it.
// Never: decides what is right. redis-server did, when record wrote the files.
// Start here: the format. play.go has the connections, record/ writes the files, transcripts_test.go tests a server.
package transcripts

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Transcript is one file: a list of steps. The server is empty at the first step.
//
//	# a comment, which stays in its place
//	> SET k "two words"        a command; quotes and \x escapes as in redis-cli
//	2> GET k                   the same from a second connection
//	> (next)                   nothing is sent: the next message of pub/sub is read
//	< $9                       one line of the reply, the same in RESP2 and RESP3
//	<2 $-1                     a line in RESP2 only
//	<3 _                       a line in RESP3 only
//	<~ :[0-9]+                 a pattern for a whole reply that varies; it joins its lines by blanks
//	= 0 SET k v PXAT <ms>      an effect, after the number of its database
//	! 0 expired k              a keyspace event: database, event, key
//	@ sleep 20ms
//
// A bulk string's bytes are on a separate line. They are quoted if they begin with a quote or have unprintable bytes.
type Transcript struct {
	Name  string
	Steps []*Step
}

// A Step is a comment, a pause or a command with its replies.
type Step struct {
	Line    int
	Comment string // the line itself, if it is not a command
	Sleep   time.Duration
	Client  int // 1, 2, …; 0 if the step is not a command
	Text    string
	Args    []string
	Pattern string
	Reply   [4][]string // by protocol: 2 and 3
	Effects []string    // lines beginning with "= "
	Events  []string    // lines beginning with "! "
}

// Read parses a file.
func Read(path string) (*Transcript, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t := &Transcript{Name: path}
	var last *Step
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		mark, rest, _ := strings.Cut(line, " ")
		switch {
		case mark == "<" || mark == "<2" || mark == "<3" || mark == "<~":
			if last == nil || last.Client == 0 {
				return nil, fmt.Errorf("%s:%d: a reply without a command", path, n)
			}
			if mark == "<" || mark == "<2" {
				last.Reply[2] = append(last.Reply[2], rest)
			}
			if mark == "<" || mark == "<3" {
				last.Reply[3] = append(last.Reply[3], rest)
			}
			if mark == "<~" {
				if _, err := regexp.Compile(rest); err != nil {
					return nil, fmt.Errorf("%s:%d: %w", path, n, err)
				}
				last.Pattern = rest
			}
			continue
		case (mark == "=" || mark == "!") && last != nil && last.Client != 0:
			if mark == "=" {
				last.Effects = append(last.Effects, rest)
			} else {
				last.Events = append(last.Events, rest)
			}
			continue
		case strings.HasSuffix(mark, ">") && !strings.HasPrefix(mark, "#"):
			last = &Step{Line: n, Client: 1, Text: rest}
			if digits := strings.TrimSuffix(mark, ">"); digits != "" {
				if last.Client, err = strconv.Atoi(digits); err != nil || last.Client < 1 || last.Client > 9 {
					return nil, fmt.Errorf("%s:%d: client %q", path, n, digits)
				}
			}
			if last.Args, err = split(rest); err != nil || len(last.Args) == 0 {
				return nil, fmt.Errorf("%s:%d: %q: %v", path, n, rest, err)
			}
		case mark == "@":
			last = &Step{Line: n, Comment: line}
			if last.Sleep, err = time.ParseDuration(strings.TrimPrefix(rest, "sleep ")); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, n, err)
			}
		case line == "" || strings.HasPrefix(line, "#"):
			last = &Step{Line: n, Comment: line}
		default:
			return nil, fmt.Errorf("%s:%d: %q is neither a command nor a reply", path, n, line)
		}
		t.Steps = append(t.Steps, last)
	}
	return t, lines.Err()
}

// Write writes t to its file.
func (t *Transcript) Write() error {
	var b strings.Builder
	for _, s := range t.Steps {
		if s.Client == 0 {
			b.WriteString(s.Comment + "\n")
			continue
		}
		if s.Client > 1 {
			b.WriteString(strconv.Itoa(s.Client))
		}
		b.WriteString("> " + s.Text + "\n")
		switch {
		case s.Pattern != "":
			b.WriteString("<~ " + s.Pattern + "\n")
		case strings.Join(s.Reply[2], "\n") == strings.Join(s.Reply[3], "\n"):
			writeLines(&b, "< ", s.Reply[2])
		default:
			writeLines(&b, "<2 ", s.Reply[2])
			writeLines(&b, "<3 ", s.Reply[3])
		}
		writeLines(&b, "= ", s.Effects)
		writeLines(&b, "! ", s.Events)
	}
	return os.WriteFile(t.Name, []byte(b.String()), 0o644)
}

func writeLines(b *strings.Builder, mark string, lines []string) {
	for _, l := range lines {
		b.WriteString(mark + l + "\n")
	}
}

// Check returns an error unless a reply, given as lines, is the expected one in this protocol.
func (s *Step) Check(protocol int, got []string) error {
	if s.Pattern != "" {
		if whole := strings.Join(got, " "); !regexp.MustCompile(`\A(?:` + s.Pattern + `)\z`).MatchString(whole) {
			return fmt.Errorf("got %s, which does not match %s", whole, s.Pattern)
		}
		return nil
	}
	if want := s.Reply[protocol]; strings.Join(got, "\n") != strings.Join(want, "\n") {
		return fmt.Errorf("got %s, want %s", strings.Join(got, " "), strings.Join(want, " "))
	}
	return nil
}

// CheckAfter is Check for a server that the host may have delayed. A number of seconds in a reply may be larger by the
// time since the conversation began. A TTL is rounded, so half a second changes none. The clock of OBJECT IDLETIME
// ticks once a second, at any moment.
func (s *Step) CheckAfter(passed time.Duration, protocol int, got []string) error {
	err, want := s.Check(protocol, got), s.Reply[protocol]
	if err == nil || s.Pattern != "" || len(got) != len(want) {
		return err
	}
	least, most := 0, 0
	switch strings.ToLower(s.Args[0]) {
	case "ttl", "httl":
		least = -int((passed + time.Second/2) / time.Second)
	case "object":
		if len(s.Args) > 1 && strings.EqualFold(s.Args[1], "idletime") {
			most = int(passed/time.Second) + 1
		}
	}
	for i := range want {
		if got[i] == want[i] {
			continue
		}
		w, isTime := seconds(want[i])
		g, isToo := seconds(got[i])
		if !isTime || !isToo || g-w < least || g-w > most {
			return err
		}
	}
	return nil
}

// seconds parses the line of an integer. Negative integers are not times.
func seconds(line string) (n int, ok bool) {
	digits, isInteger := strings.CutPrefix(line, ":")
	n, err := strconv.Atoi(digits)
	return n, isInteger && err == nil && n >= 0
}

// EffectLine returns the line for a propagated command.
func EffectLine(db int, args []string) string {
	words := []string{strconv.Itoa(db)}
	for _, a := range args {
		words = append(words, abbreviate(a))
	}
	return strings.Join(words, " ")
}

// EventLine returns the line for a keyspace event.
func EventLine(db int, event, key string) string {
	return strconv.Itoa(db) + " " + event + " " + abbreviate(key)
}

var (
	unixMs   = regexp.MustCompile(`\A1[7-9]\d{11}\z`)
	streamID = regexp.MustCompile(`\A1[7-9]\d{11}-\d+\z`)
)

// abbreviate returns s as a word. It replaces times near the present, which would differ, and long strings, which would
// not help a reader.
func abbreviate(s string) string {
	switch {
	case unixMs.MatchString(s):
		return "<ms>"
	case streamID.MatchString(s):
		return "<ms>" + s[strings.IndexByte(s, '-'):]
	case len(s) > 64:
		return fmt.Sprintf("<%d bytes>", len(s))
	case s == "" || strings.ContainsRune(s, ' '):
		return quoteBytes(s)
	}
	return printable(s)
}

// split splits a command line into arguments as redis-cli does.
func split(line string) (args []string, err error) {
	for i := 0; ; {
		for i < len(line) && line[i] == ' ' {
			i++
		}
		if i == len(line) {
			return args, nil
		}
		var arg []byte
		switch line[i] {
		case '"':
			end := i + 1
			for end < len(line) && line[end] != '"' {
				if line[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(line) {
				return nil, fmt.Errorf("a quote is not closed")
			}
			text, err := strconv.Unquote(line[i : end+1])
			if err != nil {
				return nil, err
			}
			arg, i = []byte(text), end+1
		default:
			for i < len(line) && line[i] != ' ' {
				arg = append(arg, line[i])
				i++
			}
		}
		args = append(args, expand(string(arg)))
	}
}

// repeated is the only shorthand in arguments: {1000*x} is a thousand times x.
var repeated = regexp.MustCompile(`\{(\d+)\*([^}]+)\}`)

func expand(arg string) string {
	return repeated.ReplaceAllStringFunc(arg, func(s string) string {
		m := repeated.FindStringSubmatch(s)
		n, _ := strconv.Atoi(m[1])
		return strings.Repeat(m[2], n)
	})
}
