package lib

import (
	"testing"

	"spindle/scripting/lua"
)

// fuzz calls one function with a string. The function must return or raise an error, and use no more memory than
// allowed.
func fuzz(f *testing.F, call string, seeds ...string) {
	for _, seed := range seeds {
		f.Add(seed, "")
	}
	p, err := lua.Compile("@user_script", []byte("local a, b = ... return pcall(function() return "+call+" end)"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		s := lua.NewState()
		Open(s)
		s.SetMemoryLimit(64 << 20)
		s.Start(s.Load(p, nil), s.String(a), s.String(b))
		if status := s.Run(1 << 40); status != lua.Done && s.Err().Str() != "not enough memory" {
			t.Fatalf("status %d: %s", status, s.ToString(s.Err()).Str())
		}
	})
}

func FuzzJSONDecode(f *testing.F) {
	fuzz(f, "cjson.encode(cjson.decode(a))", `{"a":[1,-2.5e3,"\u00e9\ud834\udd1e",null,true]}`, `[[[0x1F,nan,-inf]]]`)
}

func FuzzUnpackMessage(f *testing.F) {
	fuzz(f, "cmsgpack.pack(cmsgpack.unpack(a))", "\x82\xa1a\x93\x01\xc0\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00\xa1b\xc3",
		"\xdd\xff\xff\xff\xff", "\xdb\xff\xff\xff\xff")
}

func FuzzUnpackStruct(f *testing.F) {
	for _, format := range []string{">!8i4dc0", "Bc0s", "!1073741824i32c2147483647"} {
		f.Add(format, "\x02abc\x00defghijklmnop")
	}
	fuzz(f, "struct.unpack(a, b)")
}
