package conn

import (
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/number"
	"spindle/protocol"
)

// A filter selects the clients that CLIENT KILL closes. A condition that is not given holds for every client.
type filter struct {
	addr, laddr []byte
	user        *acl.User
	id, maxAge  int64
	kind        kind
	byKind      bool
	spareCaller bool
}

func (f *family) parseFilter(args [][]byte) (filter, error) {
	w := filter{spareCaller: true}
	for ; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return w, protocol.ErrSyntax
		}
		value := args[1]
		switch option := args[0]; {
		case command.Is(option, "ID"):
			n, ok := number.ParseInt(value)
			if !ok || n <= 0 {
				return w, errKillID
			}
			w.id = n
		case command.Is(option, "MAXAGE"):
			n, ok := number.ParseInt(value)
			if !ok {
				return w, errMaxAge
			}
			if n <= 0 {
				return w, errMaxAgeZero
			}
			w.maxAge = n
		case command.Is(option, "TYPE"):
			k, err := parseKind(value)
			if err != nil {
				return w, err
			}
			w.kind, w.byKind = k, true
		case command.Is(option, "ADDR"):
			w.addr = value
		case command.Is(option, "LADDR"):
			w.laddr = value
		case command.Is(option, "USER"):
			w.user = f.Users.Find(value)
			if w.user == nil {
				return w, errNoUser(value)
			}
		case command.Is(option, "SKIPME") && command.Is(value, "YES"):
			w.spareCaller = true
		case command.Is(option, "SKIPME") && command.Is(value, "NO"):
			w.spareCaller = false
		default:
			return w, protocol.ErrSyntax
		}
	}
	return w, nil
}

// meets reports whether the filter selects cl.
func (w *filter) meets(c *command.Context, cl *client.Client) bool {
	return cl.Conn != nil &&
		(w.addr == nil || cl.Conn.RemoteAddr() == string(w.addr)) &&
		(w.laddr == nil || cl.Conn.LocalAddr() == string(w.laddr)) &&
		(!w.byKind || kindOf(cl) == w.kind) &&
		(w.id == 0 || cl.ID == w.id) &&
		(w.user == nil || cl.User == client.User(w.user)) &&
		(w.maxAge == 0 || cl.Age(c.Now) >= w.maxAge) &&
		(!w.spareCaller || cl != c.Client)
}

// kill is CLIENT KILL ip:port, and CLIENT KILL option value [option value …].
//
// The first form replies OK or an error and may close the caller. The second replies how many clients it closed.
func (f *family) kill(c *command.Context) error {
	old := len(c.Args) == 3
	want := filter{}
	if old {
		want.addr = c.Args[2]
	} else {
		var err error
		if want, err = f.parseFilter(c.Args[2:]); err != nil {
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
