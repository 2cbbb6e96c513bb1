package conn

import (
	"net"
	"slices"
	"strings"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/number"
	"spindle/protocol"
)

// A filter selects the clients that CLIENT KILL closes and CLIENT LIST shows. A client must meet all conditions.
type filter struct {
	conditions []condition
	skip       int64 // the id of a client that is not selected; 0 means none
}

// A condition is one option of a filter. If an option is given twice, the last one counts.
type condition struct {
	option string
	holds  func(c *command.Context, cl *client.Client) bool
}

func (w *filter) add(option string, holds func(c *command.Context, cl *client.Client) bool) {
	at := slices.IndexFunc(w.conditions, func(old condition) bool { return old.option == option })
	if at >= 0 {
		w.conditions[at].holds = holds
		return
	}
	w.conditions = append(w.conditions, condition{option, holds})
}

// parseFilter reads the options of CLIENT LIST and CLIENT KILL. Most of them can have the prefix NOT-, which selects
// the clients that do not meet the condition. skipMe is the default of SKIPME.
func (f *family) parseFilter(c *command.Context, args [][]byte, skipMe bool) (filter, error) {
	w := filter{}
	for len(args) > 0 {
		if len(args) == 1 {
			return w, protocol.ErrSyntax
		}
		if command.Is(args[0], "SKIPME") {
			switch {
			case command.Is(args[1], "YES"):
				skipMe = true
			case command.Is(args[1], "NO"):
				skipMe = false
			default:
				return w, protocol.ErrSyntax
			}
			args = args[2:]
			continue
		}
		option := strings.ToUpper(string(args[0]))
		word, not := strings.CutPrefix(option, "NOT-")
		if not && (word == "IDLE" || word == "MAXAGE") {
			return w, protocol.ErrSyntax
		}
		holds, taken, err := f.parseCondition(word, option, args[1:])
		if err != nil {
			return w, err
		}
		w.add(option, func(c *command.Context, cl *client.Client) bool { return holds(c, cl) != not })
		args = args[1+taken:]
	}
	if skipMe {
		w.skip = c.Client.ID
	}
	return w, nil
}

// parseCondition parses the value of one option of CLIENT LIST or CLIENT KILL. word is option without its prefix NOT-.
// holds ignores the prefix; the caller negates the result. taken is the number of arguments that the value takes.
//
// An empty name, address or version matches no client. Otherwise CLIENT KILL NAME "" would close every connection
// without a name.
func (f *family) parseCondition(word, option string, args [][]byte) (
	holds func(c *command.Context, cl *client.Client) bool, taken int, err error) {
	value := args[0]
	text := string(value)
	equal := func(field func(cl *client.Client) string) func(*command.Context, *client.Client) bool {
		return func(_ *command.Context, cl *client.Client) bool { return text != "" && field(cl) == text }
	}
	taken = 1
	switch word {
	case "ID":
		ids := map[int64]bool{}
		for taken = 0; taken < len(args); taken++ {
			n, ok := number.ParseInt(args[taken])
			if !ok && taken > 0 {
				break
			}
			if !ok && option != word {
				return nil, 0, protocol.ErrSyntax
			}
			if !ok || n <= 0 {
				return nil, 0, errKillID
			}
			ids[n] = true
		}
		holds = func(_ *command.Context, cl *client.Client) bool { return ids[cl.ID] }
	case "MAXAGE", "IDLE":
		n, ok := number.ParseInt(value)
		switch {
		case !ok:
			return nil, 0, errSeconds(word)
		case n <= 0:
			return nil, 0, errSecondsZero(word)
		}
		holds = func(c *command.Context, cl *client.Client) bool { return cl.Age(c.Now) >= n }
		if word == "IDLE" {
			holds = func(c *command.Context, cl *client.Client) bool { return idleSeconds(cl, c.Now) >= n }
		}
	case "TYPE":
		k, err := parseKind(value)
		if err != nil {
			return nil, 0, err
		}
		holds = func(_ *command.Context, cl *client.Client) bool { return kindOf(cl) == k }
	case "USER":
		user := f.Users.Find(value)
		if user == nil {
			return nil, 0, errNoUser(value)
		}
		holds = func(_ *command.Context, cl *client.Client) bool { return cl.User == client.User(user) }
	case "FLAGS":
		if i := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune(everyFlag, r) }); i >= 0 {
			return nil, 0, errLetters(word, option, text)
		}
		holds = func(_ *command.Context, cl *client.Client) bool {
			flags := appendFlags(nil, cl)
			return !slices.ContainsFunc(value, func(b byte) bool { return !slices.Contains(flags, b) })
		}
	case "CAPA":
		if strings.Trim(text, "r") != "" {
			return nil, 0, errLetters(word, option, text)
		}
		holds = func(_ *command.Context, cl *client.Client) bool { return text == "" || cl.Is(client.Redirects) }
	case "DB":
		n, ok := number.ParseInt(value)
		switch {
		case !ok:
			return nil, 0, errDBNumber(option)
		case n < 0 || n >= int64(f.Databases()):
			return nil, 0, errDBRange(option, f.Databases()-1)
		}
		holds = func(_ *command.Context, cl *client.Client) bool { return int64(cl.DB) == n }
	case "ADDR":
		holds = equal(func(cl *client.Client) string { return cl.Conn.RemoteAddr() })
	case "LADDR":
		holds = equal(func(cl *client.Client) string { return cl.Conn.LocalAddr() })
	case "IP":
		holds = equal(func(cl *client.Client) string {
			ip, _, _ := net.SplitHostPort(cl.Addr())
			return ip
		})
	case "NAME":
		holds = equal(func(cl *client.Client) string { return cl.Name })
	case "LIB-NAME":
		holds = equal(func(cl *client.Client) string { return cl.LibName })
	case "LIB-VER":
		holds = equal(func(cl *client.Client) string { return cl.LibVersion })
	default:
		return nil, 0, protocol.ErrSyntax
	}
	return holds, taken, nil
}

// meets reports whether the filter selects cl.
func (w *filter) meets(c *command.Context, cl *client.Client) bool {
	return cl.Conn != nil && cl.ID != w.skip &&
		!slices.ContainsFunc(w.conditions, func(o condition) bool { return !o.holds(c, cl) })
}

// kill is CLIENT KILL ip:port, and CLIENT KILL option value [option value …].
//
// The first form replies OK or an error, and may close the caller. The second form replies the number of clients that
// it closed.
func (f *family) kill(c *command.Context) error {
	old := len(c.Args) == 3
	want := filter{}
	if old {
		addr := string(c.Args[2])
		want.add("ADDR", func(_ *command.Context, cl *client.Client) bool { return cl.Conn.RemoteAddr() == addr })
	} else {
		var err error
		if want, err = f.parseFilter(c, c.Args[2:], true); err != nil {
			return err
		}
	}
	var doomed []*client.Client // collected first: closing changes the registry
	for cl := range f.Clients.All {
		if want.meets(c, cl) {
			doomed = append(doomed, cl)
		}
	}
	switch {
	case !old:
		c.Reply.Int(int64(len(doomed)))
	case len(doomed) == 0:
		return errNoSuchClient
	default:
		c.Reply.OK()
	}
	for _, cl := range doomed {
		f.Kill(cl, cl == c.Client)
	}
	return nil
}
