package lib

import (
	"os"
	"testing"
	"time"

	"spindle/scripting/lua"
)

// document makes a table of about 10 KB of JSON: typical orders.
const document = `
local d = {}
for i = 1, 60 do
	d[i] = {id = i * 1001, name = "customer number " .. i, email = "someone" .. i .. "@example.com", total = i * 19.99,
		tags = {"new", "paid", "x" .. i}, active = i % 2 == 0, note = 'said "hello"\nand left'}
end
`

var work = []struct{ name, prepare, step string }{
	{"json-encode", "", "cjson.encode(d)"},
	{"json-decode", "local s = cjson.encode(d)", "cjson.decode(s)"},
	{"pack", "", "cmsgpack.pack(d)"},
	{"unpack", "local s = cmsgpack.pack(d)", "cmsgpack.unpack(s)"},
	{"struct", "", `struct.unpack(">I4hBs", struct.pack(">I4hBs", 7, -2, 3, "some text"))`},
	{"bit", "", "bit.bxor(bit.band(123456, 65535), bit.lshift(7, 3))"},
}

func loop(i int, times string) string {
	return document + work[i].prepare + "\nfor i = 1, " + times + " do local r = " + work[i].step + " end"
}

// BenchmarkLibraries runs each library on a document of 10 KB. Watch allocs/op, and ns/op next to TestTimesOfRedis.
func BenchmarkLibraries(b *testing.B) {
	for i, w := range work {
		b.Run(w.name, func(b *testing.B) {
			s := lua.NewState()
			Open(s)
			p, err := lua.Compile("@user_script", []byte("local n = ... "+loop(i, "n")))
			if err != nil {
				b.Fatal(err)
			}
			f := s.Load(p, nil)
			b.ReportAllocs()
			b.ResetTimer()
			s.Start(f, lua.Number(float64(b.N)))
			if s.Run(1<<60) != lua.Done {
				b.Fatal(s.ToString(s.Err()).Str())
			}
		})
	}
}

// TestTimesOfRedis prints the times of redis-server for the same loops. It needs SPINDLE_LIB_BESIDE=1.
func TestTimesOfRedis(t *testing.T) {
	if os.Getenv("SPINDLE_LIB_BESIDE") == "" {
		t.Skip("a measurement, not a test: SPINDLE_LIB_BESIDE=1 prints it")
	}
	redis := redisServer(t)
	for i, w := range work {
		took := time.Hour
		for range 5 {
			start := time.Now()
			v, err := redis.Do("EVAL", loop(i, "3000"), "0")
			if err != nil || v.Err() != nil {
				t.Fatal(err, v.Err())
			}
			took = min(took, time.Since(start))
		}
		t.Logf("%-12s %8d ns/op", w.name, took.Nanoseconds()/3000)
	}
}
