package route

import (
	"bytes"
	"net"
	"testing"

	"spindle/protocol/respclient"
)

// parse reads one reply from bytes.
func parse(wire []byte) (respclient.Value, error) {
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		far.Write(wire)
		far.Close()
	}()
	return respclient.New(near).Receive()
}

// appendValue encodes a value of strings, integers and arrays as a server does.
func appendValue(dst []byte, v respclient.Value) []byte {
	switch v.Kind {
	case ':':
		return append(dst, ":"+v.Word()+"\r\n"...)
	case '*':
		dst = appendHeader(dst, '*', len(v.Elems))
		for _, e := range v.Elems {
			dst = appendValue(dst, e)
		}
		return dst
	}
	dst = appendHeader(dst, '$', len(v.Text))
	return append(append(dst, v.Text...), "\r\n"...)
}

// FuzzRead: for any COMMAND reply of a shard, either Read refuses it, or each call of its commands has a plan. The keys
// of a plan are arguments.
func FuzzRead(f *testing.F) {
	for _, legacy := range []bool{false, true} {
		for _, row := range commandReply(f, legacy).Elems {
			f.Add(appendValue(nil, list(row)), "a b 1 c d")
		}
	}
	var p Plan
	f.Fuzz(func(t *testing.T, wire []byte, rest string) {
		reply, err := parse(wire)
		if err != nil {
			return
		}
		table, err := Read(reply, Redis)
		if err != nil {
			return
		}
		for _, row := range table.Rows() {
			var args [][]byte
			for word := range bytes.SplitSeq([]byte(row.Name), []byte("|")) {
				args = append(args, word)
			}
			args = append(args, split1(rest)...)
			table.Plan(args, &p)
			if (p.Class == Refused) != (p.Err != nil) {
				t.Fatalf("%s: class %v with error %v", row.Name, p.Class, p.Err)
			}
			if p.Err != nil {
				continue
			}
			keys := table.AppendKeys(nil, p.Row, args)
			for _, at := range keys {
				if at < 1 || at >= len(args) {
					t.Fatalf("%s: key %d of %d", row.Name, at, len(args))
				}
			}
			if p.KeyCount != len(keys) {
				t.Fatalf("%s: %d keys, KeyCount %d", row.Name, len(keys), p.KeyCount)
			}
			if p.Class == Split {
				p.Groups(nil)
			}
		}
	})
}
