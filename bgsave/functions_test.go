package bgsave

import (
	"bytes"
	"testing"

	"spindle/bgsave/rdb"
)

// TestFunctionPayloads: sources survive packing and unpacking. Other payloads are refused with their own errors.
func TestFunctionPayloads(t *testing.T) {
	sources := [][]byte{[]byte("#!lua name=a\nx"), bytes.Repeat([]byte("#!lua name=b "), 100), []byte("12")}
	for _, compress := range []bool{false, true} {
		payload := PackFunctions(sources, compress)
		got, checked, err := UnpackFunctions(payload, rdb.Check{})
		if !checked || err != nil || len(got) != 3 || !bytes.Equal(bytes.Join(got, nil), bytes.Join(sources, nil)) {
			t.Errorf("compress %t: %q, %t, %v", compress, got, checked, err)
		}
		payload[3]++
		if _, checked, _ := UnpackFunctions(payload, rdb.Check{}); checked {
			t.Error("a wrong checksum is right")
		}
	}
	for body, want := range map[string]error{
		"\x00\x01v": errNoFunction, "\xf6": errPreFunction, "\xf5\x05ab": errFunction, "\xf5": errFunction,
	} {
		if _, checked, err := UnpackFunctions(rdb.AppendFooter([]byte(body), 0, 10), rdb.Check{}); !checked || err != want {
			t.Errorf("%q: %t, %v", body, checked, err)
		}
	}
}

// FuzzFunctionPayloads: any bytes are refused, or are a payload whose sources survive packing again.
func FuzzFunctionPayloads(f *testing.F) {
	f.Add(PackFunctions([][]byte{[]byte("#!lua name=a\nx"), []byte("7")}, true))
	f.Fuzz(func(t *testing.T, p []byte) {
		sources, _, err := UnpackFunctions(p, rdb.Check{AnySum: true})
		if err != nil {
			return
		}
		again, _, err := UnpackFunctions(PackFunctions(sources, false), rdb.Check{})
		if err != nil || len(again) != len(sources) || !bytes.Equal(bytes.Join(again, nil), bytes.Join(sources, nil)) {
			t.Errorf("%q, then %q, %v", sources, again, err)
		}
	})
}
