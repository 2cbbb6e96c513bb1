package conn

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"spindle/engine/acl"
	"spindle/engine/client"
)

// session is the state that AUTH, HELLO and RESET change.
type session struct {
	user, name    string
	authenticated bool
	protocol      int
	resp3         bool
}

func sessionOf(cl *client.Client) session {
	return session{cl.User.(*acl.User).Rights().Name(), cl.Name, cl.Authenticated, cl.Protocol, cl.Out.RESP3}
}

// FuzzLogins sends any sequence of AUTH, HELLO and RESET. The client's user is always the one whose password it sent
// last.
//
// An error changes nothing. Each wrong password is counted once. AUTH leaves no password in the arguments.
func FuzzLogins(f *testing.F) {
	for _, seed := range []string{
		"auth secret\nhello 3\nreset\nhello", "HELLO 3 AUTH alice pw SETNAME a\nhello 2 setname b",
		"auth alice pw\nauth bob off\nauth alice pw x\nauth",
		"hello 3 auth default secret auth alice no", "hello 4\nhello x\nhello 3 auth alice\nhello 3 setname\nhello 3 nope",
		"hello 3 setname a auth alice pw setname \x01",
		"auth nobody secret\nauth  secret\nauth default pw", "hello 3 auth setname auth auth alice pw",
		"hello 03 auth alice pw\nhello -3",
	} {
		f.Add([]byte(seed))
	}
	passwords := map[string]string{"default": "secret", "alice": "pw"}
	h := newServer(f)
	h.users.SetDefaultPassword("secret")
	for _, user := range []string{"alice on >pw", "bob off >off"} {
		words := bytes.Split([]byte(user), []byte(" "))
		if _, err := h.users.Set(words[0], words[1:]); err != nil {
			f.Fatal(err)
		}
	}
	cl := h.arrive("1.1.1.1:1", 0)
	f.Fuzz(func(t *testing.T, text []byte) {
		cl.User, cl.Name, cl.Authenticated, cl.Protocol, cl.Out.RESP3 = h.users.Default(), "", false, 2, false
		h.refused = h.refused[:0]
		for _, line := range strings.Split(string(text), "\n") {
			words := strings.Split(line, " ")
			verb := strings.ToLower(words[0])
			if verb != "auth" && verb != "hello" && verb != "reset" {
				continue
			}
			before, refused := sessionOf(cl), len(h.refused)
			args := make([][]byte, len(words))
			for i, w := range words {
				args[i] = []byte(w)
			}
			cl.Out.Reset()
			h.Serve(cl, args)
			reply := string(cl.Out.B)
			after := sessionOf(cl)
			if wrong := strings.HasPrefix(reply, "-WRONGPASS"); wrong != (len(h.refused) == refused+1) {
				t.Fatalf("%q: %q, and %d refusals are booked", line, reply, len(h.refused)-refused)
			}
			if strings.HasPrefix(reply, "-") {
				if after != before {
					t.Fatalf("%q: %q, and from %v came %v", line, reply, before, after)
				}
			} else if want := follow(t, before, words, passwords); after != want {
				t.Fatalf("%q: %q, and from %v came %v, want %v", line, reply, before, after, want)
			}
			if verb == "auth" && len(args) <= 3 {
				for _, arg := range args[1:] {
					if string(arg) != "(redacted)" {
						t.Fatalf("%q: %q is left", line, arg)
					}
				}
			}
		}
	})
}

// follow returns the session after a request that succeeded. It fails the test if the request had to be refused.
func follow(t *testing.T, s session, words []string, passwords map[string]string) session {
	prove := func(user, password string) {
		if want, known := passwords[user]; !known || want != password {
			t.Fatalf("%q: taken with a wrong password", words)
		}
		s.user, s.authenticated = user, true
	}
	switch verb := strings.ToLower(words[0]); {
	case verb == "reset":
		return session{user: "default", protocol: 2}
	case verb == "auth" && len(words) == 2:
		prove("default", words[1])
	case verb == "auth" && len(words) == 3:
		prove(words[1], words[2])
	case verb == "auth":
		t.Fatalf("%q: taken", words)
	default:
		var proof []string
		for i := 2; i < len(words); i++ {
			if strings.EqualFold(words[i], "auth") {
				proof = words[i+1 : i+3]
				i += 2
			} else {
				s.name = words[i+1]
				i++
			}
		}
		if proof != nil {
			prove(proof[0], proof[1])
		}
		if !s.authenticated {
			t.Fatalf("%q: a stranger is greeted", words)
		}
		if len(words) > 1 {
			version, err := strconv.Atoi(words[1])
			if err != nil || version != 2 && version != 3 {
				t.Fatalf("%q: taken", words)
			}
			s.protocol, s.resp3 = version, version == 3
		}
	}
	return s
}
