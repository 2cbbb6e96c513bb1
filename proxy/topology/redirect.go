package topology

import (
	"bytes"
	"net"
	"strconv"
	"strings"

	"spindle/internal/number"
)

// ParseRedirect reads the line of a MOVED or ASK error, with or without its first byte and CRLF. from is the address of
// the server that has sent it.
//
// Shape: "MOVED 3999 10.0.0.1:6381". The host may be an IPv6 address without brackets, or empty: then it is from's.
// Errors: ok is false for anything else, also if the host is "?": the server does not know it.
func ParseRedirect(line []byte, from string) (slot int, addr string, ok bool) {
	line = bytes.TrimRight(bytes.TrimPrefix(line, []byte("-")), "\r\n")
	words := bytes.Split(line, []byte(" "))
	if len(words) < 3 || string(words[0]) != "MOVED" && string(words[0]) != "ASK" {
		return 0, "", false
	}
	n, good := number.ParseInt(words[1])
	colon := bytes.LastIndexByte(words[2], ':')
	if !good || n < 0 || n >= maxSlots || colon < 0 {
		return 0, "", false
	}
	port, good := number.ParseInt(words[2][colon+1:])
	if !good {
		return 0, "", false
	}
	addr, ok = address(string(words[2][:colon]), port, hostOf(from))
	return int(n), addr, ok
}

// maxSlots bounds the number of slots of any deployment.
const maxSlots = 16384

// address joins host and port. An empty host is asked, the host that the answer has come from. ok is false if either is
// not known.
func address(host string, port int64, asked string) (addr string, ok bool) {
	if host == "" {
		host = asked
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" || host == "?" || strings.ContainsAny(host, " \r\n/") || port < 1 || port > 65535 {
		return "", false
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10)), true
}

// hostOf returns the host of "host:port"; "" if it has none.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	return host
}
