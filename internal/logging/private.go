package logging

import (
	"errors"
	"regexp"
	"strings"
)

// Redacted stands in a line for data of users, while they are hidden.
const Redacted = "*redacted*"

// A Private is an argument of a line, or an error in the chain of one, that holds data of users. Public is its text
// without them.
type Private interface{ Public() string }

// Data are data of users: a key, or bytes of a request.
type Data string

func (Data) Public() string { return Redacted }

// A Client is a client as CLIENT LIST shows it. Its own name and its user's are data of users.
type Client string

var clientNames = regexp.MustCompile(`\b(name|user)=[^ ]+`)

func (c Client) Public() string { return clientNames.ReplaceAllString(string(c), "$1="+Redacted) }

// Hide sets whether lines leave out data of users: hide-user-data-from-log.
func (l *Logger) Hide(on bool) { l.hides.Store(on) }

// public are args without data of users.
func public(args []any) []any {
	shown := make([]any, len(args))
	for i, a := range args {
		shown[i] = a
		var p Private
		switch err, is := a.(error); {
		case is && errors.As(err, &p):
			if inner, is := p.(error); is {
				shown[i] = strings.ReplaceAll(err.Error(), inner.Error(), p.Public())
			}
		default:
			if p, is := a.(Private); is {
				shown[i] = p.Public()
			}
		}
	}
	return shown
}
