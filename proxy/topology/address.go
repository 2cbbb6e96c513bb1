package topology

import (
	"net"
	"strconv"
	"strings"
)

// maxSlots bounds the number of slots of any deployment.
const maxSlots = 16384

// address joins host and port. If host is empty, it uses asked, the host that sent the reply. ok is false if host or
// port is unknown.
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

// hostOf returns the host of "host:port", or "" if there is none.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	return host
}
