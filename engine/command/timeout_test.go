package command

import "testing"

func TestTimeout(t *testing.T) {
	const now = 1_700_000_000_000
	c := &Context{Now: now}
	for _, k := range []struct {
		arg  string
		want int64 // after now; 0 means no end
		err  error
	}{
		{"0", 0, nil}, {"0.0", 0, nil}, {"-0", 0, nil}, {"1", 1000, nil}, {"0.001", 1, nil}, {"1.001", 1001, nil},
		{"0.003", 3, nil}, {"2.5", 2500, nil},
		{"0.0001", 1, nil}, {"1.0001", 1001, nil}, {"1e-12", 1, nil}, {"-0.0001", 0, nil}, {"1e3", 1_000_000, nil},
		{"0x10", 16_000, nil},
		{"-1", 0, errTimeoutNegative}, {"-0.001", 0, errTimeoutNegative}, {"-inf", 0, errTimeoutNegative},
		{"-1e300", 0, errTimeoutNegative},
		{"inf", 0, errTimeoutRange}, {"1e400", 0, errTimeoutRange}, {"9223372036854775", 0, errTimeoutRange},
		{"9223372036854776", 0, errTimeoutRange},
		{"", 0, errTimeoutFloat}, {"x", 0, errTimeoutFloat}, {" 1", 0, errTimeoutFloat}, {"1 ", 0, errTimeoutFloat},
		{"nan", 0, errTimeoutFloat},
	} {
		got, err := c.Timeout([]byte(k.arg))
		if got != 0 {
			got -= now
		}
		if got != k.want || err != k.err {
			t.Errorf("%q: %d, %v; want %d, %v", k.arg, got, err, k.want, k.err)
		}
	}
}
