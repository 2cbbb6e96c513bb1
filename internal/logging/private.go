package logging

import (
	"errors"
	"regexp"
	"strings"
)

// Redacted stands in a line in place of users' data, while these are hidden.
const Redacted = "*redacted*"

// A Private is an argument of a line that holds users' data, or such an error in the chain of an argument. Public
// returns its text without these data.
type Private interface{ Public() string }

// A Data is users' data: a key, or bytes of a request.
type Data string

func (Data) Public() string { return Redacted }

// A Client is a client in the form of CLIENT LIST. Its name and its user's name are users' data.
type Client string

var clientNames = regexp.MustCompile(`\b(name|user)=[^ ]+`)

func (c Client) Public() string { return clientNames.ReplaceAllString(string(c), "$1="+Redacted) }

// Hide sets whether lines leave out users' data, for hide-user-data-from-log.
func (l *Logger) Hide(on bool) { l.hides.Store(on) }

// public returns args without users' data.
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
