package differential

import (
	"bufio"
	"bytes"
	"fmt"
	"net"

	"spindle/internal/number"
	"spindle/protocol/respclient"
)

// readReply appends one complete reply to dst, unparsed. It only allocates dst, because equal bytes need no parsing.
func readReply(in *bufio.Reader, dst []byte) ([]byte, error) {
	for missing := int64(1); missing > 0; missing-- {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return append(dst, line...), err
		}
		dst = append(dst, line...)
		if len(line) < 3 {
			return dst, fmt.Errorf("no reply begins %q", line)
		}
		n := int64(0)
		switch line[0] {
		case '+', '-', ':', ',', '#', '(', '_':
			continue
		case '$', '=', '!', '*', '~', '>', '%', '|':
			var ok bool
			if n, ok = number.ParseInt(line[1 : len(line)-2]); !ok || n < -1 || n > 1<<30 {
				return dst, fmt.Errorf("no reply begins %q", line)
			}
		default:
			return dst, fmt.Errorf("no reply begins %q", line)
		}
		if n < 0 {
			continue
		}
		switch line[0] {
		case '$', '=', '!':
			for n += 2; n > 0; {
				piece, err := in.Peek(int(min(n, 4096)))
				if err != nil {
					return dst, err
				}
				dst = append(dst, piece...)
				in.Discard(len(piece))
				n -= int64(len(piece))
			}
		case '%':
			missing += 2 * n
		case '|': // the reply that it describes follows
			missing += 2*n + 1
		default:
			missing += n
		}
	}
	return dst, nil
}

// parse returns a reply's bytes as a value.
func parse(raw []byte) respclient.Value {
	v, err := respclient.New(recorded{in: bytes.NewReader(raw)}).Receive()
	if err != nil {
		v = respclient.Value{Kind: '!', Text: "not RESP: " + err.Error()}
	}
	return v
}

// recorded is a connection from which all bytes have already arrived.
type recorded struct {
	net.Conn
	in *bytes.Reader
}

func (r recorded) Read(p []byte) (int, error) { return r.in.Read(p) }
