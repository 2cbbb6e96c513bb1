package rdb

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// listed returns a file's records as text, key by key, and the error that ended reading.
func listed(file []byte, plain bool) (lines []string, err error) {
	d := NewDecoder(bytes.NewReader(file), DecoderOptions{NoChecksum: true, Plain: plain, Size: int64(len(file))})
	var b Batch
	for err == nil {
		err = d.Next(&b)
		rest := b.Plain
		for i := range b.Records {
			r := &b.Records[i]
			if r.Op != OpPlain {
				lines = append(lines, fmt.Sprintf("%v %d %d %q %d %q %d %q %d %d %d",
					r.Op, r.Kind, r.DB, r.Key, r.Value.Form, r.Value.Bytes, r.Value.Int, r.Raw, r.DeadlineMs, r.Idle, r.Freq))
				continue
			}
			volatile := uint64(0)
			for range r.Keys {
				k := &rest[0]
				rest = rest[1:]
				if k.DeadlineMs != None {
					volatile++
				}
				text, number := b.Value(k)
				form := Verbatim
				if number {
					form = Integer
				}
				lines = append(lines, fmt.Sprintf("%v %d %d %q %d %q %d %q %d %d %d",
					OpKey, KindString, r.DB, b.Key(k), form, text, k.Int, "", k.DeadlineMs, None, None))
			}
			if volatile != r.Volatile {
				return lines, fmt.Errorf("%d plain keys have a deadline, not %d", volatile, r.Volatile)
			}
		}
		if len(rest) != 0 {
			return lines, fmt.Errorf("%d plain keys too many", len(rest))
		}
	}
	if err == io.EOF {
		err = nil
	}
	return lines, err
}

// FuzzPlain: with and without plain keys, a file yields the same records in the same order, up to the same error.
func FuzzPlain(f *testing.F) {
	f.Add([]byte("REDIS0009\xfe\x00\x00\x01k\x03abc\xfc\x00\x01\x02\x03\x04\x05\x06\x07\x00\x01l\xc0\x05\x00\x01m\xc1" +
		"\x05\x01\xfd\x01\x02\x03\x04\x00\x01n\xc2\x01\x02\x03\x04\x02\x01s\x01\x01a\x00\x40\x41" +
		string(bytes.Repeat([]byte("q"), 65)) + "\x00\xff\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("REDIS0009\x00\x01k\xc3\x04\x05\x03abcd\xf8\x05\x00\x01l\x01v\x00\x80\x00\x00\x00\x01m\x01v\xff"))
	f.Fuzz(func(t *testing.T, file []byte) {
		want, wantErr := listed(file, false)
		got, err := listed(file, true)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("plain: %q, %v\nwithout: %q, %v", got, err, want, wantErr)
		}
	})
}
