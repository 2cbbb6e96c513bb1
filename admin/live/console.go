package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"spindle/protocol"
	"spindle/protocol/respclient"
)

// The console is off unless a user and a token are set. It runs only commands that read, with the user's rights.

func (p *Page) consoleOn() bool { return p.o.Console != "" && p.o.Token != "" }

// maxLine bounds a console's request, and maxReply how much of the reply is shown.
const (
	maxLine  = 64 << 10
	maxReply = 256 << 10
)

// mostAsking bounds how many of the console's commands may run or wait for the turn. A command waits without a bound
// while another one holds the turn.
const mostAsking = 8

// An answer is the console's output for one line.
type answer struct {
	Text  string   `json:"text"`
	Error bool     `json:"error"`
	DB    int      `json:"db"`              // the database of the next line
	Words []string `json:"words,omitempty"` // possible beginnings of a line, if the request asks for them
}

func (p *Page) serveConsole(w http.ResponseWriter, r *http.Request) {
	if !p.consoleOn() {
		http.Error(w, "the console is off: it needs admin-token and admin-console-user", http.StatusForbidden)
		return
	}
	if r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "JSON is expected", http.StatusUnsupportedMediaType)
		return
	}
	var request struct {
		Line  string `json:"line"`
		DB    int    `json:"db"`
		Words bool   `json:"words"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxLine)).Decode(&request); err != nil {
		http.Error(w, "JSON is expected: {\"line\": \"…\"}", http.StatusBadRequest)
		return
	}
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	default:
		http.Error(w, "too many commands of the console wait for the turn", http.StatusServiceUnavailable)
		return
	}
	a := p.answer(request.Line, r.RemoteAddr, request.DB)
	if request.Words {
		a.Words = wordsOfConsole()
	}
	body, _ := json.Marshal(a)
	writeJSON(w, body)
}

// answer runs one line on a database, for the browser at the address from.
func (p *Page) answer(line, from string, db int) answer {
	text, next, err := p.runLine(line, from, db)
	if err != nil {
		return answer{Text: printable(err.Error()), Error: true, DB: db}
	}
	if len(text) > maxReply {
		text = strings.ToValidUTF8(text[:maxReply], "") + "\n… the rest is not shown"
	}
	return answer{Text: text, Error: strings.HasPrefix(text, shownError), DB: next}
}

// runLine returns the output of a line, and the database for the next one.
func (p *Page) runLine(line, from string, db int) (text string, next int, err error) {
	args, err := splitLine(line)
	if err != nil || len(args) == 0 {
		return "", db, err
	}
	consult := func(db int, args [][]byte) (respclient.Value, error) {
		reply, err := p.o.Consult(p.o.Console, from, db, args)
		if err != nil {
			return respclient.Value{}, err
		}
		return parse(reply)
	}
	switch word := string(args[0]); {
	case strings.EqualFold(word, "help"):
		var words []string
		for _, a := range args[1:] {
			words = append(words, string(a))
		}
		text, err = help(words, func(words ...string) (any, error) {
			var question [][]byte
			for _, w := range words {
				question = append(question, []byte(w))
			}
			v, err := consult(db, question)
			if err == nil {
				err = v.Err()
			}
			return plain(v), err
		})
		return text, db, err
	case strings.EqualFold(word, "select") && len(args) == 2:
		if next, err = strconv.Atoi(string(args[1])); err == nil {
			_, err = consult(next, [][]byte{[]byte("PING")})
		} else {
			err = protocol.ErrNotInteger
		}
		return "OK\n", next, err
	case !consoleTakes(args):
		return "", db, fmt.Errorf("ERR this console only takes commands that read, and %q is none of them: try help",
			strings.ToUpper(word))
	}
	v, err := consult(db, args)
	if err != nil {
		return "", db, err
	}
	var b strings.Builder
	show(&b, v, "")
	return b.String(), db, nil
}

// takes has the commands that the console runs, each with the subcommands that it runs; nil means all. They read the
// server's state. The server itself refuses commands that write. This list excludes commands that would wait, listen,
// or change the server.
var takes = map[string][]string{
	"acl":     {"whoami", "cat", "dryrun", "help"},
	"bigkeys": {"get", "help"}, "bitcount": nil, "bitfield_ro": nil, "bitpos": nil, "bf.card": nil, "bf.exists": nil,
	"bf.info": nil, "bf.mexists": nil,
	"client": {"list", "help"},
	"cluster": {"countkeysinslot", "getkeysinslot", "help", "info", "keyslot", "links", "nodes", "replicas", "shards",
		"slots"},
	"command": nil, "commandlog": {"get", "help", "len"}, "config": {"get", "help"}, "dbsize": nil, "dump": nil,
	"echo": nil, "exists": nil, "expiretime": nil,
	"function": {"list", "stats", "help"},
	"geodist":  nil, "geohash": nil, "geopos": nil, "georadius_ro": nil, "georadiusbymember_ro": nil, "geosearch": nil,
	"get": nil, "getbit": nil, "getrange": nil, "hexists": nil, "hexpiretime": nil, "hget": nil, "hgetall": nil,
	"hkeys": nil, "hlen": nil, "hmget": nil, "hotkeys": {"get", "help"}, "hpexpiretime": nil, "hpttl": nil,
	"hrandfield": nil, "hscan": nil, "hstrlen": nil, "httl": nil, "hvals": nil, "info": nil, "keys": nil,
	"lastsave": nil, "latency": {"doctor", "graph", "help", "histogram", "history", "latest"}, "lcs": nil,
	"lindex": nil, "llen": nil, "lolwut": nil, "lpos": nil, "lrange": nil,
	"memory": {"doctor", "help", "malloc-stats", "stats", "usage"}, "mget": nil, "module": {"list", "help"},
	"object": nil, "pexpiretime": nil, "pfcount": nil, "ping": nil, "pttl": nil,
	"pubsub": {"channels", "help", "numpat", "numsub", "shardchannels", "shardnumsub"}, "randomkey": nil, "role": nil,
	"scan": nil, "scard": nil, "script": {"exists", "help", "stats"}, "sdiff": nil, "sinter": nil, "sintercard": nil,
	"sismember": nil, "slowlog": {"get", "help", "len"}, "smembers": nil, "smismember": nil, "sort_ro": nil,
	"srandmember": nil, "sscan": nil, "stalls": {"get", "help", "len"}, "strlen": nil, "substr": nil, "sunion": nil,
	"time": nil, "touch": nil, "ttl": nil, "type": nil, "xinfo": nil, "xlen": nil, "xpending": nil, "xrange": nil,
	"xread": nil, "xrevrange": nil, "zcard": nil, "zcount": nil, "zdiff": nil, "zinter": nil, "zintercard": nil,
	"zlexcount": nil, "zmscore": nil, "zrandmember": nil, "zrange": nil, "zrangebylex": nil, "zrangebyscore": nil,
	"zrank": nil, "zrevrange": nil, "zrevrangebylex": nil, "zrevrangebyscore": nil, "zrevrank": nil, "zscan": nil,
	"zscore": nil, "zunion": nil,
}

func consoleTakes(args [][]byte) bool {
	subs, ok := takes[strings.ToLower(string(args[0]))]
	if !ok || subs == nil {
		return ok
	}
	if len(args) < 2 {
		return true // the server reports what is wrong with it
	}
	for _, sub := range subs {
		if strings.EqualFold(sub, string(args[1])) {
			return true
		}
	}
	return false
}

// splitLine splits a line into arguments as redis-cli does: words, "…" with escapes, '…' without.
func splitLine(line string) (args [][]byte, err error) {
	const unbalanced = "ERR unbalanced quotes"
	for i := 0; ; {
		for i < len(line) && strings.IndexByte(" \t\r\n", line[i]) >= 0 {
			i++
		}
		if i == len(line) {
			return args, nil
		}
		arg, quote := []byte{}, byte(0)
		if line[i] == '"' || line[i] == '\'' {
			quote, i = line[i], i+1
		}
		for ; ; i++ {
			switch {
			case i == len(line) && quote != 0:
				return nil, errors.New(unbalanced)
			case i == len(line) || quote == 0 && strings.IndexByte(" \t\r\n", line[i]) >= 0:
			case quote != 0 && line[i] == quote:
				if i++; i < len(line) && strings.IndexByte(" \t\r\n", line[i]) < 0 {
					return nil, errors.New(unbalanced)
				}
			case quote == '"' && line[i] == '\\' && i+1 < len(line):
				n := 0
				arg, n = unescape(arg, line[i+1:])
				i += n
				continue
			default:
				arg = append(arg, line[i])
				continue
			}
			break
		}
		args = append(args, arg)
	}
}

// unescape appends the bytes for an escape. rest begins after the backslash. n is how many bytes of rest belong to the
// escape.
func unescape(arg []byte, rest string) (_ []byte, n int) {
	if rest[0] == 'x' && len(rest) >= 3 {
		if high, low := hexDigit(rest[1]), hexDigit(rest[2]); high >= 0 && low >= 0 {
			return append(arg, byte(high<<4|low)), 3
		}
	}
	if i := strings.IndexByte("nrtba", rest[0]); i >= 0 {
		return append(arg, "\n\r\t\b\a"[i]), 1
	}
	return append(arg, rest[0]), 1
}

func hexDigit(c byte) int { return strings.IndexByte("0123456789abcdef", c|0x20) }
