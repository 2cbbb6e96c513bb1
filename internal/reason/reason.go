// Package reason words errors of the operating system as C programs print them, and so as Redis's logs and replies do.
//
// Owner: the caller; it has only pure functions.
package reason

import (
	"errors"
	"strings"
	"syscall"
)

// Of returns only the system's text for err: "No such file or directory". For any other error it returns the error's
// own text with a capital first letter.
func Of(err error) string {
	text := err.Error()
	if number := syscall.Errno(0); errors.As(err, &number) {
		text = number.Error()
	}
	return capital(text)
}

// InContext returns err's whole text, with the system's part as Of returns it: "bind: Address already in use".
func InContext(err error) string {
	text := err.Error()
	if number := syscall.Errno(0); errors.As(err, &number) {
		if before, found := strings.CutSuffix(text, number.Error()); found {
			return before + capital(number.Error())
		}
	}
	return text
}

func capital(text string) string {
	if text != "" && text[0] >= 'a' && text[0] <= 'z' {
		return string(text[0]-'a'+'A') + text[1:]
	}
	return text
}
